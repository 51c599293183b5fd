//go:build linux

package process_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// BenchmarkBesideBMv2 measures the switch as a process on veths and, where the environment's BMV2 names a
// simple_switch_grpc, that one with the same program, entries and traffic, three seconds each. The options of `ethereal
// switch` are those of ETHEREAL_SWITCH_OPTIONS. "wire" is the same traffic over a pair of veths with nothing between:
// what the sender and the receiver take. The whole machine's time counts whatever else it does, so let it do nothing
// else; kernels that sample it by ticks, as most do, have it right for floods, and wrong for a sender that wakes with
// the tick.
func BenchmarkBesideBMv2(b *testing.B) {
	type device struct {
		name    string
		command []string
	}
	switches := []device{{"wire", nil}, {"ethereal", append([]string{etherealtest.Binary(b), "switch"}, strings.Fields(os.Getenv("ETHEREAL_SWITCH_OPTIONS"))...)}}
	if name := os.Getenv("BMV2"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			b.Fatalf("BMV2: %v", err)
		}
		switches = append(switches, device{"bmv2", []string{path}})
	}
	for _, prog := range []string{"lpm", "ethereal"} {
		for _, size := range []int{64, 1400, 4200} {
			for _, load := range []int{0, 20000} {
				for _, s := range switches {
					b.Run(fmt.Sprintf("%s/%dB/%s/%s", prog, size, traffic(load), s.name), func(b *testing.B) {
						for range b.N {
							measure(b, s.command, prog, size, load, 3*time.Second).report(b)
						}
					})
				}
			}
		}
	}
}

// BenchmarkIdle measures what switches with Ethereal's program use while no packet arrives, 30 s each in turn: the
// interpreter, the kernel's data path and, where the environment's BMV2 names it, BMv2.
func BenchmarkIdle(b *testing.B) {
	binary := etherealtest.Binary(b)
	for _, s := range []struct {
		name    string
		command []string
	}{
		{"interpreter", []string{binary, "switch", "--datapath", "interpreter"}}, {"kernel", []string{binary, "switch", "--datapath", "kernel"}},
		{"bmv2", []string{os.Getenv("BMV2")}},
	} {
		b.Run(s.name, func(b *testing.B) {
			if s.command[0] == "" {
				b.Skip("BMV2 names no simple_switch_grpc")
			}
			ns := twoVeths(b)
			p := startSwitch(b, ns, s.command, "s1", "s2")
			p.program(b)
			time.Sleep(3 * time.Second) // the start is over
			for range b.N {
				const span = 30 * time.Second
				before := p.cpu(b)
				time.Sleep(span)
				b.ReportMetric(100*float64(p.cpu(b)-before)/float64(span), "%-of-a-core")
			}
		})
	}
}

func traffic(load int) string {
	if load == 0 {
		return "flooded"
	}
	return fmt.Sprintf("%d-a-second", load)
}

// measurement is what one switch did with one kind of traffic.
type measurement struct {
	sent, received int
	elapsed        time.Duration
	cpu, senderCPU time.Duration
	machine        time.Duration // of all cores, of everything but idling
	p50, p99       time.Duration
}

func (m measurement) report(b *testing.B) {
	b.ReportMetric(float64(m.received)/m.elapsed.Seconds(), "packets/s")
	if m.cpu > 0 {
		b.ReportMetric(float64(m.received)/m.cpu.Seconds(), "packets/cpu-s")
	}
	b.ReportMetric(m.machine.Seconds()*1e6/float64(max(m.received, 1)), "machine-us/packet")
	b.ReportMetric(m.senderCPU.Seconds()*1e6/float64(max(m.sent, 1)), "sender-us/packet")
	b.ReportMetric(100*(1-float64(m.received)/float64(max(m.sent, 1))), "%-lost")
	b.ReportMetric(float64(m.p50.Microseconds()), "p50-us")
	b.ReportMetric(float64(m.p99.Microseconds()), "p99-us")
}

// measure runs a switch between two veths and sends packets of size bytes
// through it: load per second, or as many as go. Without a command there is no
// switch.
func measure(t testing.TB, command []string, prog string, size, load int, duration time.Duration) measurement {
	ns := porttest.Enter(t)
	used := func() time.Duration { return 0 }
	if command == nil {
		ns.Veth(t, "h1", "h2", 9000)
	} else {
		ns.Veth(t, "h1", "s1", 9000)
		ns.Veth(t, "h2", "s2", 9000)
		p := startSwitch(t, ns, command, "s1", "s2")
		if prog == "ethereal" {
			p.program(t)
		} else {
			json, info := program(t, prog)
			p.push(t, json, info)
			p.write(t, p.entry(t, p4.Update_INSERT, "ipv4_lpm", lpm(24, 10, 0, 0, 0), "forward", []byte{2, 0, 0, 0, 0, 9}, []byte{2}))
		}
		used = func() time.Duration { return p.cpu(t) }
	}
	in, err := port.OpenInterface("h1", port.InterfaceOptions{SendBuffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the measurement is over
	out, err := port.OpenInterface("h2", port.InterfaceOptions{Slots: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the measurement is over
	packet := rocePacket(size, 0xC001)
	m := measurement{}
	// A little of it first, so that everything is in place.
	for range 200 {
		in.Send([][]byte{packet})
		time.Sleep(100 * time.Microsecond)
	}
	for range 100 {
		out.Receive(1000, func([]byte) { m.received++ })
		time.Sleep(time.Millisecond)
	}
	if m.received == 0 {
		t.Fatal("nothing comes through")
	}
	m.received = 0
	before, mine, busy := used(), threadCPU(), machineCPU(t)
	start := time.Now()
	if load == 0 {
		m.flood(in, out, [][]byte{packet}, duration)
	} else {
		m.pace(in, out, packet, load, duration)
	}
	m.elapsed = time.Since(start)
	m.cpu, m.senderCPU, m.machine = used()-before, threadCPU()-mine, machineCPU(t)-busy
	return m
}

// flood sends the packets as fast as it goes, again and again. Receiving is done between
// the batches, so that no third thread competes for the processors.
func (m *measurement) flood(in, out *port.Interface, packets [][]byte, duration time.Duration) {
	batch := make([][]byte, 64)
	n := 0
	count := func([]byte) { m.received++ }
	for end := time.Now().Add(duration); time.Now().Before(end); {
		for i := range batch {
			batch[i] = packets[n%len(packets)]
			n++
		}
		m.sent += in.Send(batch)
		out.Receive(1<<20, count)
		runtime.Gosched()
	}
	for range 20 {
		time.Sleep(time.Millisecond)
		out.Receive(1<<20, count)
	}
}

// pace sends load packets per second, evenly, and takes their latency: from
// before the call that sends to the kernel's taking them in hand at the far
// end. A packet's last eight bytes carry the time.
func (m *measurement) pace(in, out *port.Interface, packet []byte, load int, duration time.Duration) {
	var latencies []time.Duration
	take := func(b []byte) {
		m.received++
		sent := int64(binary.BigEndian.Uint64(b[len(b)-8:]))
		latencies = append(latencies, time.Duration(out.Stamp()-sent))
	}
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) //nolint:errcheck // then it is less even
	gap := time.Second / time.Duration(load)
	frame := [][]byte{packet}
	start := time.Now()
	for next := time.Duration(0); next < duration; next += gap {
		if wait := next - time.Since(start); wait > 0 {
			ts := unix.NsecToTimespec(int64(wait))
			unix.Nanosleep(&ts, nil) //nolint:errcheck // the next turn waits on
		}
		binary.BigEndian.PutUint64(packet[len(packet)-8:], uint64(time.Now().UnixNano()))
		m.sent += in.Send(frame)
		out.Receive(64, take)
	}
	for range 50 {
		time.Sleep(time.Millisecond)
		out.Receive(1<<20, take)
	}
	slices.Sort(latencies)
	if n := len(latencies); n > 0 {
		m.p50, m.p99 = latencies[n/2].Round(100*time.Nanosecond), latencies[n*99/100].Round(100*time.Nanosecond)
	}
}

// machineCPU is what all cores have done since the machine started, but idling: the
// kernel's own work, such as softirqs, too.
func machineCPU(t testing.TB) (busy time.Duration) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu, user, nice, system, idle, iowait, irq, softirq, steal, in hundredths of a second.
	for i, field := range strings.Fields(line)[1:8] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("/proc/stat: %q", line)
		}
		if i != 3 && i != 4 {
			busy += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return busy
}

// threadCPU is what the calling thread has used.
func threadCPU() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// program pushes Ethereal's program, with the entries of a ToR whose port 2 is
// its uplink.
func (p *running) program(t testing.TB) {
	t.Helper()
	info := p4src.V1ModelP4Info()
	p.push(t, p4src.V1ModelJSON(), info)
	p.write(t, p.rack(t)...)
}

// rack is the entries of a ToR whose port 2 is its uplink.
func (p *running) rack(t testing.TB) []*p4.Update {
	t.Helper()
	label := []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: []byte{1}, Mask: []byte{1}}}}}
	labelled := p.entry(t, p4.Update_INSERT, "source_route", label, "take_uplink", []byte{2})
	labelled.GetEntity().GetTableEntry().Priority = 10
	return []*p4.Update{
		p.entry(t, p4.Update_MODIFY, "device", nil, "set_device", []byte{7}, []byte{1}, []byte{0}, []byte{1}, []byte{0}, []byte{0xff, 0xff, 0xff, 0xff}),
		p.entry(t, p4.Update_INSERT, "label_carrier", exact(0), "carrier_udp_sport"),
		p.entry(t, p4.Update_INSERT, "route_v4", lpm(24, 10, 0, 0, 0), "forward_up", []byte{1}),
		p.entry(t, p4.Update_INSERT, "uplink_of_port", exact(2), "set_uplink_index", []byte{0}),
		p.entry(t, p4.Update_INSERT, "port_of_uplink", exact(0), "take_uplink", []byte{2}),
		p.entry(t, p4.Update_INSERT, "ecn_profile", exact(2), "mark_between", []byte{20}, []byte{60}, []byte{0x7f, 0xff}),
		labelled,
	}
}
