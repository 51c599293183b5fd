//go:build linux

package tagger

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
)

// BenchmarkProgram has the kernel run the program over one packet, without an
// interface. A packet once labelled is right from then on, so this shows what
// looking costs; BenchmarkSend shows what writing costs.
func BenchmarkProgram(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	roce := shape{dst: addr4, qpn: 1, port: 0xC007, payload: 1024, opcode: rocev2.WriteMiddle}.bytes(b, rng)
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

// BenchmarkSend sends from a packet socket over a veth pair, a system call a
// packet, without the tagger and with it. Every packet is rewritten.
// ns/program is the kernel's own measure of the program, its clock included.
func BenchmarkSend(b *testing.B) {
	for _, payload := range []int{0, 1024, 4096, 9000} {
		for _, how := range []struct {
			name     string
			dst      int
			tag, sum bool
			pieces   bool
		}{
			{name: "IPv4/without", dst: 4}, {name: "IPv4/tagged", dst: 4, tag: true},
			{name: "IPv4 with checksum/tagged", dst: 4, tag: true, sum: true},
			{name: "IPv4 in pieces/without", dst: 4, pieces: true},
			{name: "IPv4 in pieces/tagged", dst: 4, tag: true, pieces: true},
			{name: "IPv6 flow label/without", dst: 6}, {name: "IPv6 flow label/tagged", dst: 6, tag: true},
		} {
			if how.pieces && payload < 4096 {
				continue // the kernel makes buffers below a page in one piece
			}
			b.Run(fmt.Sprintf("%d/%s", payload, how.name), func(b *testing.B) {
				w := newWire(b)
				s := shape{dst: addr4, qpn: 1, port: 0xF00D, payload: payload, opcode: rocev2.WriteMiddle, checksum: how.sum}
				if how.dst == 6 {
					s.dst = addr6
				}
				frame := s.bytes(b, rand.New(rand.NewPCG(1, 1)))
				packet := append(make([]byte, vnetSize), frame...)
				binary.NativeEndian.PutUint16(packet[2:], uint16(len(frame)))
				if how.pieces {
					binary.NativeEndian.PutUint16(packet[2:], 14)
				}
				unix.Close(w.recv) // nobody listens: the other end drops
				var tg *Tagger
				var before *ebpf.ProgramStats
				if how.tag {
					tg = w.attach(Config{IPv6: labeller.FlowLabel})
					defer tg.Close()
					w.must(tg.Set(labeller.Assignment{QP: labeller.QP{Dst: s.dst, Num: 1}, Label: 7}))
					stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
					w.must(err)
					defer stats.Close()
					before, err = tg.o.Program.Stats()
					w.must(err)
				}
				b.SetBytes(int64(len(frame)))
				cpu := cpuTime(b)
				n := 0
				for b.Loop() {
					if _, err := unix.Write(w.send, packet); err != nil {
						b.Fatal(err)
					}
					n++
				}
				// Other work on the machine does not count here.
				b.ReportMetric(float64(cpuTime(b)-cpu)/float64(n), "cpu-ns/op")
				if how.tag {
					after, err := tg.o.Program.Stats()
					w.must(err)
					runs := after.RunCount - before.RunCount
					b.ReportMetric(float64((after.Runtime-before.Runtime).Nanoseconds())/float64(runs), "ns/program")
				}
			})
		}
	}
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
