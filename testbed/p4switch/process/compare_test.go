//go:build linux

package process_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/etherealtest"
	"github.com/ethereal-fabric/ethereal/testbed/port"
	"github.com/ethereal-fabric/ethereal/testbed/port/porttest"
)

// TestAgainstBMv2 measures the switch as a process on veths and, where the
// environment's BMV2 names a simple_switch_grpc, that one with the same program,
// entries and traffic. It runs when ETHEREAL_COMPARE_BMV2 is set and says
// what it measured; ETHEREAL_COMPARE_SECONDS is how long each measurement
// takes (default 3), ETHEREAL_COMPARE_ROUNDS how often the switches take turns
// (default 3); of the rounds the median is shown.
func TestAgainstBMv2(t *testing.T) {
	if os.Getenv("ETHEREAL_COMPARE_BMV2") == "" {
		t.Skip("set ETHEREAL_COMPARE_BMV2=1, and BMV2 to a simple_switch_grpc to compare with")
	}
	seconds, rounds := 3.0, 3
	if s := os.Getenv("ETHEREAL_COMPARE_SECONDS"); s != "" {
		if _, err := fmt.Sscan(s, &seconds); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("ETHEREAL_COMPARE_ROUNDS"); s != "" {
		if _, err := fmt.Sscan(s, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	switches := map[string][]string{"ethereal": append([]string{etherealtest.Binary(t), "switch"}, strings.Fields(os.Getenv("ETHEREAL_SWITCH_OPTIONS"))...)}
	order := []string{"ethereal"}
	if name := os.Getenv("BMV2"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("BMV2: %v", err)
		}
		switches["bmv2"] = []string{path}
		order = append(order, "bmv2")
	} else {
		t.Log("BMV2 is not set: nothing to compare with")
	}
	duration := time.Duration(seconds * float64(time.Second))
	for _, prog := range []string{"lpm", "ethereal"} {
		for _, size := range []int{64, 1400, 4200} {
			for _, load := range []int{0, 20000} {
				results := map[string][]measurement{}
				for range rounds {
					for _, name := range order {
						t.Run(fmt.Sprintf("%s/%d/%d/%s", prog, size, load, name), func(t *testing.T) {
							results[name] = append(results[name], measure(t, switches[name], prog, size, load, duration))
						})
					}
				}
				for _, name := range order {
					if m := results[name]; len(m) > 0 {
						slices.SortFunc(m, func(a, b measurement) int { return int(a.perCPU() - b.perCPU()) })
						t.Logf("%-8s %5d B %-8s %-8s %v", prog, size, traffic(load), name, m[len(m)/2])
					}
				}
				if a, b := results["ethereal"], results["bmv2"]; len(a) > 0 && len(b) > 0 {
					t.Logf("%-8s %5d B %-8s ratio    %.1f times the packets per CPU-second", prog, size, traffic(load), a[len(a)/2].perCPU()/b[len(b)/2].perCPU())
				}
			}
		}
	}
}

func traffic(load int) string {
	if load == 0 {
		return "flooded"
	}
	return fmt.Sprintf("%d/s", load)
}

// measurement is what one switch did with one kind of traffic.
type measurement struct {
	sent, received int
	elapsed        time.Duration
	cpu, senderCPU time.Duration
	p50, p99       time.Duration
}

func (m measurement) perCPU() float64 { return float64(m.received) / m.cpu.Seconds() }

func (m measurement) String() string {
	return fmt.Sprintf("%8.0f packets/s, %8.0f per CPU-second (%5.2f us each, sender's %5.2f us), loss %4.1f%%, latency p50 %v p99 %v",
		float64(m.received)/m.elapsed.Seconds(), m.perCPU(), m.cpu.Seconds()*1e6/float64(max(m.received, 1)),
		m.senderCPU.Seconds()*1e6/float64(max(m.sent, 1)), 100*(1-float64(m.received)/float64(max(m.sent, 1))), m.p50, m.p99)
}

// measure runs a switch between two veths and sends packets of size bytes
// through it: load per second, or as many as go.
func measure(t *testing.T, command []string, prog string, size, load int, duration time.Duration) measurement {
	ns := porttest.Enter(t)
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
	before, mine := p.cpu(t), threadCPU()
	start := time.Now()
	if load == 0 {
		m.flood(in, out, packet, duration)
	} else {
		m.pace(in, out, packet, load, duration)
	}
	m.elapsed = time.Since(start)
	m.cpu, m.senderCPU = p.cpu(t)-before, threadCPU()-mine
	return m
}

// flood sends as fast as it goes. Receiving is done between the batches, so
// that no third thread competes for the processors.
func (m *measurement) flood(in, out *port.Interface, packet []byte, duration time.Duration) {
	batch := make([][]byte, 64)
	for i := range batch {
		batch[i] = packet
	}
	count := func([]byte) { m.received++ }
	for end := time.Now().Add(duration); time.Now().Before(end); {
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
// end.
func (m *measurement) pace(in, out *port.Interface, packet []byte, load int, duration time.Duration) {
	var latencies []time.Duration
	take := func(b []byte) {
		m.received++
		sent := int64(binary.BigEndian.Uint64(b[46:]))
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
		binary.BigEndian.PutUint64(packet[46:], uint64(time.Now().UnixNano()))
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
	label := []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: []byte{1}, Mask: []byte{1}}}}}
	labelled := p.entry(t, p4.Update_INSERT, "source_route", label, "take_uplink", []byte{2})
	labelled.GetEntity().GetTableEntry().Priority = 10
	p.write(t,
		p.entry(t, p4.Update_MODIFY, "device", nil, "set_device", []byte{7}, []byte{1}, []byte{0}, []byte{1}, []byte{0}, []byte{0xff, 0xff, 0xff, 0xff}),
		p.entry(t, p4.Update_INSERT, "label_carrier", exact(0), "carrier_udp_sport"),
		p.entry(t, p4.Update_INSERT, "route_v4", lpm(24, 10, 0, 0, 0), "forward_up", []byte{1}),
		p.entry(t, p4.Update_INSERT, "uplink_of_port", exact(2), "set_uplink_index", []byte{0}),
		p.entry(t, p4.Update_INSERT, "port_of_uplink", exact(0), "take_uplink", []byte{2}),
		p.entry(t, p4.Update_INSERT, "ecn_profile", exact(2), "mark_between", []byte{20}, []byte{60}, []byte{0x7f, 0xff}),
		labelled,
	)
}
