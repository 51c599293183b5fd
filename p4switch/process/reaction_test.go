//go:build linux

package process_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// BenchmarkReaction takes the carrier from one of a switch's two uplinks, again and again, while 20,000 packets/s leave
// by it: REACTIONS times, by default 20. It measures the time from the last packet that left by the dead port to the
// first by the other: because the switch sent it there, because the sender chose another path (after a quench), or
// because a controller has written another port into the table (the switch's program has no more than a table then).
// The uplinks are TAP interfaces: the kernel learns of a lost carrier at once, as of a NIC's. REACTION names a file for
// the times, in us. Sender and receiver are one thread with real-time priority, and so is the switch's.
func BenchmarkReaction(b *testing.B) {
	cuts := 20
	if n, err := strconv.Atoi(os.Getenv("REACTIONS")); err == nil {
		cuts = n
	}
	own := []string{etherealtest.Binary(b), "switch", "--realtime", "10", "--datapath"}
	all := reactions{PacketsPerSecond: reactionRate, Times: map[string][]float64{}}
	for _, c := range []struct {
		name       string
		command    []string
		controller bool
	}{
		{"kernel", append(own, "kernel"), false},
		{"interpreter", append(own, "interpreter"), false},
		{"kernel, controller", append(own, "kernel"), true},
		{"BMv2, controller", []string{os.Getenv("BMV2")}, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.command[0] == "" {
				b.Skip("BMV2 names no simple_switch_grpc")
			}
			for range b.N {
				r := newReaction(b, c.command, c.controller) // which locks the thread
				if err := port.Realtime(9); err != nil {
					b.Fatal(err)
				}
				defer unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr}, 0) //nolint:errcheck // it was so
				r.notified = c.name != "kernel"
				for i := range cuts {
					r.cut(b, i)
				}
				r.report(b, c.name, all.Times)
			}
		})
	}
	if name := os.Getenv("REACTION"); name != "" {
		out, err := json.Marshal(all)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, append(out, '\n'), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// TestLostCarrier: with the program in the kernel no packet is lost that comes after the carrier went: the first
// becomes the port's event, and leaves by the other port. One may be on its way to the dead port.
func TestLostCarrier(t *testing.T) {
	systemtest.Only(t)
	r := newReaction(t, []string{etherealtest.Binary(t), "switch", "--datapath", "kernel"}, false)
	for i := range 2 {
		r.cut(t, i)
	}
	if strings.Contains(r.p.out.String(), "packets do not see") {
		t.Skip(r.p.out)
	}
	if len(r.lost) > 0 && slices.Max(r.lost) > 1 {
		t.Errorf("lost packets: %d; %s", r.lost, r.p.out)
	}
}

const (
	reactionRate = 20_000
	reactionWait = 5 * time.Second
	quenchWait   = 20 * time.Millisecond // controllers' programs have no quenches
)

// reactions is what the benchmark writes: times in us by what reacted, in the order of the cuts.
type reactions struct {
	PacketsPerSecond int                  `json:"packets_per_second"`
	Times            map[string][]float64 `json:"times_us"`
}

// reaction is a switch with a host at port 1 and two uplinks.
type reaction struct {
	p        *running
	host     *port.Interface
	tap      [2]int // the far ends of ports 2 and 3
	packet   []byte
	buf      []byte
	seq      uint64
	due      time.Time
	moved    bool // the sender has another label
	notified bool // the switch knows of carriers what the kernel announces

	left             map[uint64]bool // the numbers of packets that left by the second uplink
	bySwitch, byHost []time.Duration
	lost             []int // packets, by cut
}

func newReaction(b testing.TB, command []string, controller bool) *reaction {
	b.Helper()
	ns := porttest.Enter(b)
	ns.Veth(b, "h1", "s1", 1500)
	r := &reaction{packet: rocePacket(256, 0xC001), buf: make([]byte, 4096)}
	for i, name := range []string{"u1", "u2"} {
		r.tap[i], _ = ns.Tap(b, name)
	}
	r.p = startSwitch(b, ns, command, "s1", "u1", "u2")
	if controller {
		r.table(b)
	} else {
		r.program(b)
	}
	var err error
	if r.host, err = port.OpenInterface("h1", port.InterfaceOptions{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.host.Close() }) //nolint:errcheck // the measurement is over
	return r
}

// program is a ToR's with two uplinks: label 1 takes the first.
func (r *reaction) program(b testing.TB) {
	r.p.program(b)
	label := []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: []byte{0}, Mask: []byte{1}}}}}
	second := r.p.entry(b, p4.Update_INSERT, "source_route", label, "take_uplink", []byte{3})
	second.GetEntity().GetTableEntry().Priority = 10
	r.p.write(b,
		r.p.entry(b, p4.Update_MODIFY, "device", nil, "set_device", []byte{7}, []byte{1}, []byte{0}, []byte{2}, []byte{0}, []byte{10}),
		r.p.entry(b, p4.Update_INSERT, "uplink_of_port", exact(3), "set_uplink_index", []byte{1}),
		r.p.entry(b, p4.Update_INSERT, "port_of_uplink", exact(1), "take_uplink", []byte{3}), second,
		&p4.Update{Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{
				SessionId: p4src.QuenchSession + 1, Replicas: []*p4.Replica{{PortKind: &p4.Replica_Port{Port: []byte{1}}}}}},
		}}}})
}

// table is a program with one table, and a controller that is notified by the kernel and writes one entry.
func (r *reaction) table(b testing.TB) {
	json, info := program(b, "lpm")
	r.p.push(b, json, info)
	to := func(typ p4.Update_Type, port byte) *p4.Update {
		return r.p.entry(b, typ, "ipv4_lpm", lpm(24, 10, 0, 0, 0), "forward", []byte{2, 0, 0, 0, 0, 9}, []byte{port})
	}
	r.p.write(b, to(p4.Update_INSERT, 2))
	links, err := port.OpenLinks()
	if err != nil {
		b.Fatal(err)
	}
	poller, err := port.NewPoller()
	if err != nil {
		b.Fatal(err)
	}
	if err := links.Attach(poller, 0); err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		runtime.LockOSThread()
		up := true
		for ctx.Err() == nil {
			poller.Wait(100*time.Millisecond, nil) //nolint:errcheck // the next may
			links.Read(func(l port.Link) {         //nolint:errcheck // the next may
				if l.Name != "u1" || l.Up == up || ctx.Err() != nil {
					return
				}
				up = l.Up
				r.p.write(b, to(p4.Update_MODIFY, map[bool]byte{true: 2, false: 3}[up]))
			})
		}
	}()
	b.Cleanup(func() { cancel(); <-done; links.Close(); poller.Close() }) //nolint:errcheck // the measurement is over
}

// send sends a packet when it is due.
func (r *reaction) send() {
	r.due = r.due.Add(time.Second / reactionRate)
	if late := time.Since(r.due); late > time.Millisecond {
		r.due = time.Now()
	}
	for time.Since(r.due) < 0 {
	}
	r.seq++
	binary.BigEndian.PutUint64(r.packet[len(r.packet)-8:], r.seq)
	r.host.Send([][]byte{r.packet})
}

// arrived reads what has left by an uplink, and returns the number of the last packet, and whether the sender had
// moved.
func (r *reaction) arrived(uplink int) (seq uint64, moved bool) {
	for {
		n, err := unix.Read(r.tap[uplink], r.buf)
		if err != nil {
			return seq, moved
		}
		if f := r.buf[:n]; n == len(r.packet) && f[36] == 0x12 && f[37] == 0xb7 {
			seq, moved = binary.BigEndian.Uint64(f[n-8:]), f[35]&1 == 0
			if uplink == 1 {
				r.left[seq] = true
			}
		}
	}
}

// quenched reads what has come back: a quench moves the sender to the other path.
func (r *reaction) quenched() {
	r.host.Receive(64, func(f []byte) {
		if len(f) >= 38 && f[36] == 0xbb && f[37] == 0x26 {
			r.move(true)
		}
	})
}

func (r *reaction) move(moved bool) {
	r.moved = moved
	r.packet[35] = 1
	if moved {
		r.packet[35] = 0
	}
}

func (r *reaction) cut(b testing.TB, n int) {
	r.move(false)
	r.due = time.Now()
	// Until packets leave by the first uplink again.
	for deadline, good := time.Now().Add(reactionWait), 0; good < 3; {
		if time.Now().After(deadline) {
			b.Fatalf("cut %d: no packets leave by the first uplink: %s", n, r.p.out)
		}
		time.Sleep(5 * time.Millisecond)
		r.due = time.Now()
		r.send()
		r.quenched()
		r.move(false)
		time.Sleep(5 * time.Millisecond)
		r.arrived(1)
		if seq, _ := r.arrived(0); seq != 0 {
			good++
		}
	}
	if r.notified { // the kernel announces one change of carriers at once and those of the next second at its end
		time.Sleep(1100 * time.Millisecond)
	}
	r.due = time.Now()
	var last time.Time
	var lastSeq uint64
	for range 100 {
		r.send()
		if seq, _ := r.arrived(0); seq != 0 {
			last, lastSeq = time.Now(), seq
		}
		r.quenched()
	}
	r.move(false)
	for phase := time.Now().Add(time.Duration(n%50) * time.Microsecond); time.Now().Before(phase); {
		if seq, _ := r.arrived(0); seq != 0 {
			last, lastSeq = time.Now(), seq
		}
	}
	if last.IsZero() {
		return // the switch has had no turn: not a cut
	}
	r.carrier(b, false)
	r.left = map[uint64]bool{}
	var bySwitch, byHost time.Duration
	for start := time.Now(); time.Since(start) < reactionWait && (bySwitch == 0 || byHost == 0 && time.Since(start) < quenchWait); {
		r.send()
		for range 8 { // also what arrives between two packets
			seq, moved := r.arrived(1)
			if seq != 0 && bySwitch == 0 {
				bySwitch = time.Since(last)
			}
			if seq != 0 && moved && byHost == 0 {
				byHost = time.Since(last)
			}
			r.quenched()
		}
	}
	if bySwitch == 0 {
		b.Fatalf("cut %d: no packet leaves by the other port: %s", n, r.p.out)
	}
	for end := time.Now().Add(quenchWait); time.Now().Before(end) && len(r.left) < int(r.seq-lastSeq); {
		r.arrived(1)
	}
	r.lost = append(r.lost, int(r.seq-lastSeq)-len(r.left))
	r.bySwitch = append(r.bySwitch, bySwitch)
	if byHost != 0 {
		r.byHost = append(r.byHost, byHost)
	}
	r.carrier(b, true)
}

func (r *reaction) carrier(b testing.TB, up bool) {
	on := 0
	if up {
		on = 1
	}
	if err := unix.IoctlSetPointerInt(r.tap[0], unix.TUNSETCARRIER, on); err != nil {
		b.Fatal(err)
	}
}

func (r *reaction) report(b *testing.B, name string, times map[string][]float64) {
	for _, x := range []struct {
		what string
		took []time.Duration
	}{{"switch", r.bySwitch}, {"host", r.byHost}} {
		if len(x.took) == 0 {
			continue
		}
		key := name
		if !strings.Contains(name, "controller") {
			key += ", " + x.what
		}
		for _, d := range x.took {
			times[key] = append(times[key], float64(d.Nanoseconds()/100)/10)
		}
		sorted := slices.Sorted(slices.Values(x.took))
		at := func(share int) float64 { return float64(sorted[(len(sorted)-1)*share/1000].Nanoseconds()) / 1000 }
		unit := strings.ReplaceAll(x.what, " ", "-")
		b.ReportMetric(at(500), unit+"-p50-us")
		b.ReportMetric(at(990), unit+"-p99-us")
		b.ReportMetric(at(1000), unit+"-max-us")
	}
	slices.Sort(r.lost)
	b.ReportMetric(float64(r.lost[len(r.lost)/2]), "p50-lost-packets")
	b.ReportMetric(float64(r.lost[len(r.lost)-1]), "max-lost-packets")
	b.ReportMetric(0, "ns/op")
	b.Logf("%d cuts, load average %s", len(r.bySwitch), loadAverage(b))
}
