//go:build linux

package tagger

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// BenchmarkProgram has the kernel run the program over one packet, without an
// interface. A packet once labelled is right from then on, so this shows what
// looking costs; BenchmarkSend shows what writing costs.
func BenchmarkProgram(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	roce := shape{dst: addr4, qpn: 1, port: 0xC007, payload: 1024, opcode: frame.WriteMiddle}.bytes(b, rng)
	tcp := append([]byte{}, roce...)
	tcp[14+9] = 6
	for _, tt := range []struct {
		name  string
		frame []byte
		set   bool
	}{{"not RoCEv2", tcp, true}, {"no label", roce, false}, {"right label", roce, true}} {
		b.Run(tt.name, func(b *testing.B) {
			tg := loaded(b, Config{})
			if tt.set {
				if err := tg.Set(labeller.Assignment{QP: labeller.QP{Dst: addr4, Num: 1}, Label: 7}); err != nil {
					b.Fatal(err)
				}
			}
			const repeat = 100_000
			var total float64
			n := 0
			for b.Loop() {
				_, d, err := tg.o.Program.Benchmark(tt.frame, repeat, nil)
				if err != nil {
					b.Fatal(err)
				}
				total += float64(d.Nanoseconds())
				n++
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(total/float64(n), "ns/packet")
		})
	}
}

// BenchmarkSend sends from a packet socket over veth pairs, a system call a
// packet, in turns over one without the tagger and one with it, where every packet is
// rewritten. It reports the sender's processor time per packet, the median of
// many turns, in which the way to the other end's drop is included and other
// work on the machine is not; and program-ns, the kernel's own measure of the
// program, its clock included.
func BenchmarkSend(b *testing.B) {
	for _, how := range []struct {
		name        string
		v6          bool
		sum, pieces bool
	}{
		{name: "source port"},
		{name: "source port, UDP checksum", sum: true},
		{name: "source port, buffer in pieces", pieces: true},
		{name: "IPv6 flow label", v6: true},
	} {
		for _, payload := range []int{0, 1024, 4096, 9000} {
			if how.pieces && payload < 4096 {
				continue // the kernel makes buffers below a page in one piece
			}
			b.Run(fmt.Sprintf("%s/%d", how.name, payload), func(b *testing.B) {
				w := newWire(b)
				s := shape{dst: addr4, qpn: 1, port: 0xF00D, payload: payload, opcode: frame.WriteMiddle, checksum: how.sum}
				if how.v6 {
					s.dst = addr6
				}
				frame := s.bytes(b, rand.New(rand.NewPCG(1, 1)))
				packet := append(make([]byte, vnetSize), frame...)
				binary.NativeEndian.PutUint16(packet[2:], uint16(len(frame)))
				if how.pieces {
					binary.NativeEndian.PutUint16(packet[2:], 14)
				}
				unix.Close(w.recv) // nobody listens: the other end drops
				la := netlink.NewLinkAttrs()
				la.Name, la.MTU = "plain", 9600
				w.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "plain-peer", PeerMTU: 9600}))
				for _, name := range []string{"plain", "plain-peer"} {
					l, err := netlink.LinkByName(name)
					w.must(err)
					w.must(netlink.LinkSetUp(l))
				}
				plain, err := netlink.LinkByName("plain")
				w.must(err)
				untagged := w.socket(plain)
				tg := w.attach(Config{IPv6: labeller.FlowLabel})
				defer tg.Close()
				w.must(tg.Set(labeller.Assignment{QP: labeller.QP{Dst: s.dst, Num: 1}, Label: 7}))

				const turn = 500
				send := func(fd int) float64 {
					before := cpuTime(b)
					for range turn {
						if _, err := unix.Write(fd, packet); err != nil {
							b.Fatal(err)
						}
					}
					return float64(cpuTime(b)-before) / turn
				}
				var without, with []float64
				for b.Loop() {
					without = append(without, send(untagged))
					with = append(with, send(w.send))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(without), "plain-ns")
				b.ReportMetric(median(with), "tagged-ns")
				stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
				w.must(err)
				defer stats.Close()
				var program []float64
				for range len(with) {
					before, err := tg.o.Program.Stats()
					w.must(err)
					send(w.send)
					after, err := tg.o.Program.Stats()
					w.must(err)
					program = append(program, float64((after.Runtime-before.Runtime).Nanoseconds())/float64(after.RunCount-before.RunCount))
				}
				b.ReportMetric(median(program), "program-ns")
			})
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// cpuTime returns the processor time of this thread, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkSet flips a queue pair that has a label.
func BenchmarkSet(b *testing.B) {
	tg := loaded(b, Config{})
	q := labeller.QP{Dst: addr4, Num: 1}
	for i := 0; b.Loop(); i++ {
		if err := tg.Set(labeller.Assignment{QP: q, Label: 7}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCounters reads all counters.
func BenchmarkCounters(b *testing.B) {
	tg := loaded(b, Config{})
	for b.Loop() {
		if _, err := tg.Counters(); err != nil {
			b.Fatal(err)
		}
	}
}
