//go:build linux

package ebpf_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// own is the project's program as the switch of a rack runs it: 64 hosts below,
// four uplinks, labels that choose them.
func own(t testing.TB) *interp.Switch {
	t.Helper()
	p := read(t, "../../p4src/build/ethereal.json")
	s := interp.NewSwitch(p, interp.Config{QueuesPerPort: 8})
	put := func(table, action string, match []program.FieldMatch, priority int32, args ...[]byte) {
		t.Helper()
		id, ok := p.TableByName(table)
		a, ok2 := p.ActionByName(id, action)
		if !ok || !ok2 {
			t.Fatalf("no table %q with action %q", table, action)
		}
		target := interp.Target{Call: interp.ActionCall{Action: a, Args: args}}
		var err error
		if match == nil {
			err = s.SetDefault(id, target)
		} else {
			_, err = s.Insert(id, interp.Entry{Match: match, Priority: priority, Target: target})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	u32 := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	exact := func(b ...byte) []program.FieldMatch { return []program.FieldMatch{{Value: b}} }
	put("device", "set_device", nil, 0, u32(1), u32(7), []byte{0}, []byte{4}, []byte{7}, u32(100))
	put("label_carrier", "carrier_udp_sport", exact(0), 0)
	put("label_carrier", "carrier_flow_label", exact(1), 0)
	for i := range uint32(64) {
		put("route_v4", "deliver", []program.FieldMatch{{Value: u32(10<<24 | i), PrefixLen: 32}}, 0, u32(i%16), []byte{2, 0, 0, 0, 0, byte(i)})
	}
	put("route_v4", "forward_up", []program.FieldMatch{{Any: true}}, 0, []byte{1})
	for i := range byte(16) {
		put("source_route", "take_uplink", []program.FieldMatch{{Value: []byte{i}, Mask: []byte{15}}}, int32(i)+1, []byte{16 + i%4})
	}
	for i := range uint32(32) {
		put("ecn_profile", "mark_between", exact(u32(i)...), 0, u32(100), u32(400), []byte{0x20, 0})
		put("uplink_of_port", "set_uplink_index", exact(u32(i)...), 0, []byte{byte(i)})
	}
	sid := func(usids ...uint16) []byte {
		a := make([]byte, 4, 16)
		copy(a, []byte{0xfc, 0xbb, 0xbb, 0})
		for _, u := range usids {
			a = binary.BigEndian.AppendUint16(a, u)
		}
		return append(a, make([]byte, 16-len(a))...)
	}
	put("own_segment", "shift_segments", exact(sid(10)[:6]...), 0)
	for i := range uint16(8) {
		put("route_v6", "forward_uplink", []program.FieldMatch{{Value: sid(20 + i), PrefixLen: 48}}, 0, []byte{16 + byte(i%4)})
		put("route_v6", "deliver", []program.FieldMatch{{Value: sid(30 + i), PrefixLen: 48}}, 0, []byte{byte(i)}, []byte{2, 0, 0, 0, 0, byte(i)})
	}
	return s
}

// inOuter is a packet in an outer header whose destination lists micro segments.
func inOuter(packet []byte, label uint32, usids ...uint16) []byte {
	p := append(slices.Clone(packet[:12]), 0x86, 0xdd)
	p = binary.BigEndian.AppendUint32(p, 6<<28|2<<20|0xFC000|label)
	p = binary.BigEndian.AppendUint16(p, uint16(len(packet)-14))
	p = append(p, 4, 64, 0xfd, 0, 0, 0xe7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0xfc, 0xbb, 0xbb, 0)
	for i := range 6 {
		u := uint16(0)
		if i < len(usids) {
			u = usids[i]
		}
		p = binary.BigEndian.AppendUint16(p, u)
	}
	return append(p, packet[14:]...)
}

// TestOwnSegments is [TestOwnProgram] for packets that go by micro segments: those are the kernel's, too.
func TestOwnSegments(t *testing.T) {
	sw, judge := own(t), own(t)
	k := load(t, sw)
	x := trial{k: k, sw: sw, judge: judge}
	x.from(t, 3)
	rng := rand.New(rand.NewPCG(5, 6))
	down := program.RegisterID(slices.IndexFunc(sw.Program().Registers, func(r program.RegisterInfo) bool { return strings.HasSuffix(r.Name, "port_down") }))
	packets := trials(t)
	for i := range packets {
		if i%40 == 39 {
			cell, epoch := rng.IntN(24), []byte{byte(rng.IntN(8) / 7)}
			for _, s := range []*interp.Switch{sw, judge} {
				if err := s.SetRegister(down, cell, epoch); err != nil {
					t.Fatal(err)
				}
			}
		}
		list := []uint16{10, 20 + uint16(rng.IntN(9)), 11, 30, 31}
		if rng.IntN(3) == 0 {
			list = []uint16{10, 30 + uint16(rng.IntN(9))}
		}
		data := inOuter(roce(11<<24|5, 0xc000|uint16(rng.IntN(16))), uint32(rng.IntN(16)), list[rng.IntN(8)/7:]...)
		if rng.IntN(4) == 0 {
			data[14+rng.IntN(len(data)-14)] = byte(rng.Uint32())
		}
		x.packet(t, i, data)
	}
	compareCounters(t, sw, judge)
	report(t, k)
	fates, err := k.Fates()
	if err != nil || fates[ebpf.FateForwarded] < uint64(packets/2) {
		t.Errorf("the kernel forwarded %d of %d packets: %v", fates[ebpf.FateForwarded], packets, err)
	}
}

// TestOwnSegmentsForged: what is not RoCEv2 loses no outer header at a dead uplink: a host could have it say what only
// switches may.
func TestOwnSegmentsForged(t *testing.T) {
	sw := own(t)
	p := sw.Program()
	id, _ := p.TableByName("port_of_uplink")
	take, _ := p.ActionByName(id, "take_uplink")
	for i := range byte(4) {
		entry := interp.Entry{
			Match:  []program.FieldMatch{{Value: []byte{i}}},
			Target: interp.Target{Call: interp.ActionCall{Action: take, Args: [][]byte{{16 + i}}}},
		}
		if _, err := sw.Insert(id, entry); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string][]byte{"port_down": {5}, "dead_uplinks": {1}} {
		r := slices.IndexFunc(p.Registers, func(r program.RegisterInfo) bool { return strings.HasSuffix(r.Name, name) })
		if err := sw.SetRegister(program.RegisterID(r), map[string]int{"port_down": 16}[name], to); err != nil {
			t.Fatal(err)
		}
	}
	notice := roce(224<<24|1, 0xbb26)
	notice[36], notice[37] = 0xbb, 0x26 // a quench's port
	for _, c := range []struct {
		what  string
		inner []byte
		sent  bool
	}{{"RoCEv2", roce(11<<24|5, 0xc001), true}, {"a notice", notice, false}} {
		sent := false
		sw.Process(interp.Input{Port: 3, Data: inOuter(c.inner, 0, 10, 20, 11, 30)}, func(o interp.Output) { sent = sent || o.Port != 3 })
		if sent != c.sent {
			t.Errorf("%s in an outer header is sent round a dead uplink: %v", c.what, sent)
		}
	}
}

// roce is a RoCEv2 write from 10.9.9.9 with a source port.
func roce(dst uint32, sport uint16) []byte {
	p := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 2, 0, 0x48, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 9, 9}
	p = binary.BigEndian.AppendUint32(p, dst)
	sumIP(p[14:34])
	p = binary.BigEndian.AppendUint16(p, sport)
	p = append(p, 0x12, 0xb7, 0x23, 0x4c, 0, 0, 0x0a, 0x40, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 42)
	return append(p, make([]byte, 16)...)
}

// TestOwnProgram holds the project's program against the interpreter with
// packets of hosts, some with a byte changed, while ports die and come back.
// Packets down and up by a label are the kernel's; those that a dead port turns
// into notices are not.
func TestOwnProgram(t *testing.T) {
	sw, judge := own(t), own(t)
	k := load(t, sw)
	x := trial{k: k, sw: sw, judge: judge}
	x.from(t, 3)
	rng := rand.New(rand.NewPCG(3, 4))
	down := program.RegisterID(slices.IndexFunc(sw.Program().Registers, func(r program.RegisterInfo) bool { return strings.HasSuffix(r.Name, "port_down") }))
	packets := trials(t)
	for i := range packets {
		if i%40 == 39 {
			cell, epoch := rng.IntN(24), []byte{byte(rng.IntN(4) / 3)}
			for _, s := range []*interp.Switch{sw, judge} {
				if err := s.SetRegister(down, cell, epoch); err != nil {
					t.Fatal(err)
				}
			}
		}
		data := roce(uint32(10+rng.IntN(2))<<24|uint32(rng.IntN(70)), 0xc000|uint16(rng.IntN(64)))
		if rng.IntN(3) == 0 {
			data[14+rng.IntN(len(data)-14)] = byte(rng.Uint32())
		}
		x.packet(t, i, data)
	}
	compareCounters(t, sw, judge)
	report(t, k)
	fates, err := k.Fates()
	if err != nil || fates[ebpf.FateForwarded] < uint64(packets/4) {
		t.Errorf("the kernel forwarded %d of %d packets: %v", fates[ebpf.FateForwarded], packets, err)
	}
}

// BenchmarkKernel measures the program alone, by BPF_PROG_TEST_RUN: no interface,
// no redirect.
func BenchmarkKernel(b *testing.B) {
	run := func(b *testing.B, k *ebpf.Switch, data []byte) {
		b.Helper()
		// A run repeats on the packet as the last left it, whose TTL falls.
		const repeat = 50
		total, n := time.Duration(0), 0
		for ; n < b.N; n += repeat {
			ret, each, err := k.Program().Benchmark(data, repeat, nil)
			if err != nil || ret != 7 { // TC_ACT_REDIRECT
				b.Fatalf("verdict %d: %v", ret, err)
			}
			total += each * repeat
		}
		b.ReportMetric(float64(total.Nanoseconds())/float64(n), "kernel-ns/packet")
	}
	sw := own(b)
	k := load(b, sw)
	for name, data := range map[string][]byte{"own/down": roce(10<<24|5, 0xc005), "own/labelled": roce(11<<24|5, 0xc005)} {
		b.Run(name, func(b *testing.B) { run(b, k, data) })
	}
}
