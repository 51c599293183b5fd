package transport

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestScenarios runs the text files in testdata/scenarios. Each command is what happens
// to one of two hosts, h0 and h1; what follows it is what they do: packets, which are
// numbered as they are sent, and events. Run with -rewrite to write what they do now.
//
//	new [receiver=go-back-n] [control=none] [ackevery=1] [window=256] [trip=0]   trip in us, of tail probes; a payload
//	is 1000 bytes, the line 400 Gb/s
//	open at=1us qp=1 bytes=3000 [label=0] [sprayed]   from h0 to h1; sprayed: labels 0 to 3 in turn
//	send at=1us [host=h0] [most=8]   what the host's port takes, the next when the one before is sent
//	arrive at=2us (1,2) [ce] [cut]   packets reach the other host, in that order, whose answers are listed; cut:
//	without payload
//	relabel at= qp= label= / resend at= qp= / close at= qp=
//	wake [host=h0]              when the host wants to be asked
//	trip [host=h0]              round trip of last packets so far, for tail probes
//	rate qp= / stats [host=h0]  counts that are not 0
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := new(exchange)
		datadriven.RunTest(t, path, s.run)
	})
}

// exchange is two hosts and the packets between them.
type exchange struct {
	f     *fabric.Fabric
	hosts [2]*Endpoint
	sent  []sentFrame
	out   strings.Builder
}

type sentFrame struct {
	to   int
	hdr  []byte
	tail int
}

// speaker writes down what its host says.
type speaker struct{ out *strings.Builder }

func (s speaker) Acked(_ fabric.Time, qp QP, bytes int64) {
	fmt.Fprintf(s.out, "acked qp%d %d bytes\n", qp, bytes)
}
func (s speaker) Done(_ fabric.Time, qp QP)    { fmt.Fprintf(s.out, "done qp%d\n", qp) }
func (s speaker) Timeout(_ fabric.Time, qp QP) { fmt.Fprintf(s.out, "timeout qp%d\n", qp) }
func (s speaker) Delivered(_ fabric.Time, src fabric.NodeID, message uint64, bytes int64) {
	fmt.Fprintf(s.out, "delivered message %d of h%d, %d bytes\n", message, src, bytes)
}
func (s speaker) Quench(fabric.Time, []byte, netip.Addr) { fmt.Fprintln(s.out, "quench") }

// inTurnOf4 gives packets four labels in turn.
type inTurnOf4 struct{ next fabric.Label }

func (b *inTurnOf4) Label(fabric.Time, QP) fabric.Label {
	b.next++
	return (b.next - 1) % 4
}
func (b *inTurnOf4) Echo(fabric.Time, QP, Echo) {}

func (x *exchange) run(t *testing.T, d *datadriven.TestData) string {
	x.out.Reset()
	at, host, qp := fabric.Time(0), 0, int64(0)
	if d.HasArg("at") {
		var text string
		d.ScanArgs(t, "at", &text)
		if err := at.UnmarshalText([]byte(text)); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
	if d.HasArg("host") {
		var text string
		d.ScanArgs(t, "host", &text)
		if host = slices.Index([]string{"h0", "h1"}, text); host < 0 {
			t.Fatalf("%s: host %q is not h0 or h1", d.Pos, text)
		}
	}
	if d.HasArg("qp") {
		d.ScanArgs(t, "qp", &qp)
	}
	var err error
	switch d.Cmd {
	case "new":
		x.create(t, d)
	case "open":
		m := Message{QP: QP(qp), ID: uint64(qp), Dst: 1, Start: at, Label: fabric.Label(number(t, d, "label", 0)), Balanced: d.HasArg("sprayed")}
		d.ScanArgs(t, "bytes", &m.Bytes)
		err = x.hosts[0].Open(at, m)
	case "send":
		x.send(host, at, number(t, d, "most", 8))
	case "arrive":
		x.arrive(t, d, at)
	case "relabel":
		err = x.hosts[0].Relabel(QP(qp), fabric.Label(number(t, d, "label", 0)))
	case "resend":
		err = x.hosts[0].Resend(QP(qp))
	case "close":
		err = x.hosts[0].Close(QP(qp))
	case "wake":
		if at, ok := x.hosts[host].NextWake(); ok {
			fmt.Fprintln(&x.out, at)
		}
	case "trip":
		fmt.Fprintln(&x.out, x.hosts[host].overdueQueue.SRTT)
	case "rate":
		e := x.hosts[0]
		fmt.Fprintln(&x.out, e.qps[e.byID.get(uint64(qp))].rate.now)
	case "stats":
		v := reflect.ValueOf(x.hosts[host].Stats())
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fmt.Fprintf(&x.out, "%s %v\n", v.Type().Field(i).Name, v.Field(i))
			}
		}
	default:
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	if x.out.Len() == 0 {
		return "nothing\n"
	}
	return x.out.String()
}

func number(t *testing.T, d *datadriven.TestData, key string, otherwise int) int {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &otherwise)
	}
	return otherwise
}

func (x *exchange) create(t *testing.T, d *datadriven.TestData) {
	var err error
	if x.f, err = fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 4, HostsPerToR: 1}); err != nil {
		t.Fatal(err)
	}
	receiver, control := "go-back-n", "none"
	if d.HasArg("receiver") {
		d.ScanArgs(t, "receiver", &receiver)
	}
	if d.HasArg("control") {
		d.ScanArgs(t, "control", &control)
	}
	x.sent = nil
	for i := range x.hosts {
		c := Config{
			Fabric: x.f, Host: fabric.NodeID(i), MTU: 1000, Balancer: &inTurnOf4{}, ProbeOnFlip: true,
			Trip:     fabric.Time(number(t, d, "trip", 0)) * fabric.Microsecond,
			AckEvery: number(t, d, "ackevery", 1), ReorderWindow: number(t, d, "window", 256),
			Receiver:   Receiver(receiver),
			Control:    Control(control),
			InitialPSN: func(fabric.NodeID, fabric.NodeID, uint32) uint32 { return 1<<24 - 2 }, // wraps around
		}
		if x.hosts[i], err = New(c, speaker{&x.out}); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
	}
}

// send asks a host for packets until it has none.
func (x *exchange) send(host int, at fabric.Time, most int) {
	e := x.hosts[host]
	for range most {
		var buf [MaxHeader]byte
		f, ok := e.Next(at, buf[:])
		if !ok {
			return
		}
		x.sent = append(x.sent, sentFrame{1 - host, slices.Clone(buf[:f.Len]), f.Tail})
		fmt.Fprintf(&x.out, "%d: %v %s\n", len(x.sent), at, x.describe(e, buf[:f.Len], f.Tail))
		at += e.cfg.LineRate.TimeFor(int64(f.Len + f.Tail))
	}
}

// describe prints a packet. PSNs are counted from the first.
func (x *exchange) describe(e *Endpoint, hdr []byte, tail int) string {
	b := frame.BTH(hdr[e.stack.bth:])
	count := func(psn uint32) int32 { return psnDiff(psn, 1<<24-2) }
	text := fmt.Sprintf("%v psn=%d label=%d", b.Opcode(), count(b.PSN()), e.stack.label(hdr))
	rest := hdr[e.stack.len:]
	switch b.Opcode() {
	case frame.Acknowledge:
		a := frame.AETH(rest)
		kind := "ack"
		switch {
		case a.Syndrome() == frame.NAKSequenceError:
			kind = "nak"
		case e.cfg.Receiver != GoBackN:
			kind = fmt.Sprintf("ack of=%d", count(a.MSN()))
		}
		text = fmt.Sprintf("%s psn=%d label=%d", kind, count(b.PSN()), e.stack.label(hdr))
	case frame.CNP:
		text = fmt.Sprintf("cnp label=%d", e.stack.label(hdr))
	default:
		text += fmt.Sprintf(" %d bytes", tail-b.Pad()-frame.ICRCSize)
		if b.AckRequest() {
			text += " ack-request"
		}
	}
	if b.BECN() {
		text += " becn"
	}
	return text
}

func (x *exchange) arrive(t *testing.T, d *datadriven.TestData, at fabric.Time) {
	for _, arg := range d.CmdArgs {
		if arg.Key == "at" || arg.Key == "ce" || arg.Key == "cut" {
			continue
		}
		for _, text := range append([]string{arg.Key}, arg.Vals...) {
			var n int
			if _, err := fmt.Sscan(text, &n); err != nil || n < 1 || n > len(x.sent) {
				t.Fatalf("%s: packet %q; there are 1 to %d", d.Pos, text, len(x.sent))
			}
			p := x.sent[n-1]
			hdr := slices.Clone(p.hdr)
			if d.HasArg("ce") {
				setCE(hdr)
			}
			tail := p.tail
			if d.HasArg("cut") {
				tail = 0
			}
			x.hosts[p.to].Receive(at, hdr, tail)
			x.send(p.to, at, x.hosts[p.to].ports[0].queue.len)
		}
	}
}
