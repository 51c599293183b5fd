package host

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
)

// Log writes an event log: what a core is told, one call a line with the time before
// it, and below it, indented, the effects.
//
//	new host=h0 scheme=ethereal seed=1 window=100ns
//	10us post message=0x7 dst=h4 bytes=8192
//	10.1us tick
//	  open qp=1 message=0x7 dst=h4 at=0 bytes=4096 label=1 start=10.1us
//	  open qp=2 message=0x7 dst=h4 at=4096 bytes=4096 label=0 start=10.1us
//
// A new line begins with each core. Label and Echo are logged as what they are, a
// line a packet; their effect is the label.
type Log struct {
	w   io.Writer
	f   *fabric.Fabric
	err error
}

// NewLog returns a log of a host of f. Writes are small: give it a buffered writer.
func NewLog(w io.Writer, f *fabric.Fabric) *Log { return &Log{w: w, f: f} }

// Err returns the first error of writing. Nothing was written after it.
func (l *Log) Err() error { return l.err }

func (l *Log) printf(format string, args ...any) {
	if l.err == nil {
		_, l.err = fmt.Fprintf(l.w, format, args...)
	}
}

// line writes a call.
func (l *Log) line(now fabric.Time, format string, args ...any) {
	l.printf("%v "+format+"\n", append([]any{now}, args...)...)
}

// effect writes what comes out.
func (l *Log) effect(format string, args ...any) { l.printf("  "+format+"\n", args...) }

// begin writes what a core is made of. What is left out is 0.
func (l *Log) begin(c *Config) {
	var b strings.Builder
	fmt.Fprintf(&b, "new host=%s scheme=%s", l.f.Name(c.Host), c.Scheme)
	for _, k := range slices.Sorted(maps.Keys(c.Params)) {
		fmt.Fprintf(&b, " param=%s:%s", k, url.QueryEscape(c.Params[k]))
	}
	fmt.Fprintf(&b, " seed=%d window=%v", c.Seed, c.BatchWindow)
	for _, x := range configTimes(c) {
		if *x.value != 0 {
			fmt.Fprintf(&b, " %s=%s", x.key, either(*x.value < 0, "none", x.value.String()))
		}
	}
	for _, x := range configNumbers(c) {
		if *x.value != 0 {
			fmt.Fprintf(&b, " %s=%d", x.key, *x.value)
		}
	}
	for _, x := range configShares(c) {
		if *x.value != 0 {
			fmt.Fprintf(&b, " %s=%v", x.key, *x.value)
		}
	}
	for _, x := range configFlags(c) {
		if *x.value {
			fmt.Fprintf(&b, " %s", x.key)
		}
	}
	l.printf("%s\n", b.String())
}

// field is a key of a new line, and where its value is.
type field[T any] struct {
	key   string
	value *T
}

func configTimes(c *Config) []field[fabric.Time] {
	return []field[fabric.Time]{
		{"jitter", &c.StartJitter}, {"memory", &c.FailedPathMemory}, {"grace", &c.TimeoutGrace},
		{"quench-interval", &c.QuenchInterval}, {"calm", &c.Calm}, {"probe-every", &c.ProbeEvery},
	}
}

func configNumbers(c *Config) []field[int] {
	return []field[int]{{"mtu", &c.MTU}, {"quench-burst", &c.QuenchBurst}}
}

func configShares(c *Config) []field[float64] {
	t := &c.Losses
	return []field[float64]{{"healthy", &t.Healthy}, {"lossy", &t.Lossy}, {"alpha", &t.Alpha}, {"beta", &t.Beta}}
}

func configFlags(c *Config) []field[bool] {
	return []field[bool]{{"resend", &c.ResendOnFlip}, {"unshuffled", &c.Unshuffled}, {"no-loss-test", &c.Losses.Off}}
}

func (l *Log) post(now fabric.Time, m hostagent.Flow) {
	l.line(now, "post message=%#x dst=%s bytes=%d", m.ID, l.name(m.Dst), m.Bytes)
}

// name returns a node's name, or its number if there is no such node.
func (l *Log) name(id fabric.NodeID) string {
	if id < 0 || int(id) >= l.f.Nodes() {
		return fmt.Sprint(int(id))
	}
	return l.f.Name(id)
}

func (l *Log) label(now fabric.Time, qp endpoint.QP, label fabric.Label) {
	l.line(now, "label qp=%d", qp)
	l.effect("label %d", label)
}

func (l *Log) echo(now fabric.Time, qp endpoint.QP, e endpoint.Echo) {
	l.line(now, "echo qp=%d label=%d rtt=%v%s", qp, e.Label, e.RTT, flag(" marked", e.Marked))
}

func flag(name string, on bool) string { return either(on, name, "") }

func (l *Log) quench(now fabric.Time, q hostagent.Quench) {
	l.line(now, "quench from=%v switch=%s port=%d epoch=%d label=%d qpn=%d psn=%d%s%s%s",
		q.Dst, l.name(q.Switch), q.Port, q.Epoch, q.Label, q.DstQP, q.PSN,
		flag(" labelled", q.Labelled), flag(" rerouted", q.Rerouted), flag(" notice", q.Notice))
}

func (l *Log) update(now fabric.Time, call string, u *statepb.Update) {
	var b strings.Builder
	for _, x := range u.GetLinks() {
		fmt.Fprintf(&b, " link=%s:%s:%d", l.link(x.GetLink()), either(x.GetUp(), "up", "down"), x.GetEpoch())
	}
	for _, x := range u.GetSuspects() {
		fmt.Fprintf(&b, " link=%s:%s:%d", l.link(x.GetLink()), either(x.GetSuspected(), "suspected", "clear"), x.GetEpoch())
	}
	l.line(now, "%s instance=%s epoch=%d%s%s%s", call, url.QueryEscape(u.GetInstance()), u.GetEpoch(),
		flag(" snapshot", u.GetSnapshot()), flag(" heartbeat", u.GetHeartbeat()), b.String())
}

// link returns a link's name, or its number if there is no such link.
func (l *Log) link(id uint32) string {
	if uint64(id) >= uint64(l.f.Links()) {
		return fmt.Sprint(id)
	}
	return l.f.LinkName(fabric.LinkID(id))
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func (l *Log) probe(now fabric.Time, r ProbeRequest) {
	l.line(now, "probe id=%d dst=%s label=%d packets=%d timeout=%v%s", r.ID, l.name(r.Dst), r.Label, r.Packets, r.Timeout,
		flag(" early", r.Early))
}

// loggedEndpoint writes what is asked of an endpoint.
type loggedEndpoint struct {
	Endpoint
	log *Log
}

func (x *loggedEndpoint) Open(now fabric.Time, m endpoint.Message) error {
	x.log.effect("open qp=%d message=%#x dst=%s at=%d bytes=%d label=%d start=%v",
		m.QP, m.ID, x.log.name(m.Dst), m.Address, m.Bytes, m.Label, m.Start)
	return x.Endpoint.Open(now, m)
}

func (x *loggedEndpoint) Resend(qp endpoint.QP) error {
	x.log.effect("resend qp=%d", qp)
	return x.Endpoint.Resend(qp)
}

func (x *loggedEndpoint) Relabel(qp endpoint.QP, l fabric.Label) error {
	x.log.effect("relabel qp=%d label=%d", qp, l)
	return x.Endpoint.Relabel(qp, l)
}

func (x *loggedEndpoint) Hold(qp endpoint.QP, until fabric.Time) error {
	x.log.effect("hold qp=%d until=%v", qp, until)
	return x.Endpoint.Hold(qp, until)
}

func (x *loggedEndpoint) Close(qp endpoint.QP) error {
	x.log.effect("close qp=%d", qp)
	return x.Endpoint.Close(qp)
}

// loggedShell writes what a shell is told.
type loggedShell struct {
	Shell
	log *Log
}

func (x *loggedShell) Alarm(at fabric.Time) {
	x.log.effect("alarm at=%v", at)
	x.Shell.Alarm(at)
}

func (x *loggedShell) Flipped(now fabric.Time, f hostagent.Flip) {
	x.log.effect("flipped qp=%d from=%d to=%d reason=%v%s", f.QP, f.From, f.To, f.Reason, flag(" dead", f.Dead))
	x.Shell.Flipped(now, f)
}

func (x *loggedShell) Sent(now fabric.Time, message uint64) {
	x.log.effect("sent message=%#x", message)
	x.Shell.Sent(now, message)
}

func (x *loggedShell) PathsFailed(now fabric.Time, failed []hostagent.Failed) {
	for _, f := range failed {
		x.log.effect("failed dst=%s label=%d", x.log.name(f.Dst), f.Label)
	}
	x.Shell.PathsFailed(now, failed)
}

func (x *loggedShell) Probed(now fabric.Time, r ProbeResult) {
	x.log.effect("probed id=%d sent=%d lost=%d", r.ID, r.Sent, r.Lost)
	x.Shell.Probed(now, r)
}

func (x *loggedShell) Fault(now fabric.Time, err error) {
	x.log.effect("fault %q", err)
	x.Shell.Fault(now, err)
}
