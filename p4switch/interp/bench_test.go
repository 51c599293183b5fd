package interp

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// The benchmarks run the project's own program as on a ToR switch: 64 host
// routes, a default route up, 16 labels, an ECMP group of 4.

func ownProgram(tb testing.TB) *program.Program {
	tb.Helper()
	b, err := os.ReadFile("../../p4src/build/ethereal.json")
	if err != nil {
		tb.Skipf("the project's program is not built: %v", err)
	}
	p, err := program.Load(b)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// must makes table entries in tests short.
type must struct {
	tb testing.TB
	s  *Switch
}

func (m must) target(table, action string, args ...[]byte) (program.TableID, Target) {
	m.tb.Helper()
	t, ok := m.s.p.TableByName(table)
	if !ok {
		m.tb.Fatalf("no table %q", table)
	}
	a, ok := m.s.p.ActionByName(t, action)
	if !ok {
		m.tb.Fatalf("table %q: no action %q", table, action)
	}
	return t, Target{Call: ActionCall{Action: a, Args: args}}
}

func (m must) insert(match []program.FieldMatch, prio int32, table, action string, args ...[]byte) Handle {
	m.tb.Helper()
	t, g := m.target(table, action, args...)
	h, err := m.s.Insert(t, Entry{Match: match, Priority: prio, Target: g})
	if err != nil {
		m.tb.Fatal(err)
	}
	return h
}

func (m must) setDefault(table, action string, args ...[]byte) {
	m.tb.Helper()
	t, g := m.target(table, action, args...)
	if err := m.s.SetDefault(t, g); err != nil {
		m.tb.Fatal(err)
	}
}

func u32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
func u8(n uint8) []byte   { return []byte{n} }

// torSwitch sets up the program on one switch.
func torSwitch(tb testing.TB) *Switch { return torSwitchOf(tb, ownProgram(tb)) }

func torSwitchOf(tb testing.TB, p *program.Program) *Switch {
	s := NewSwitch(p, Config{QueuesPerPort: 8})
	m := must{tb, s}
	m.setDefault("device", "set_device", u32(1), u32(7), u8(0), u8(4), u8(7), u32(100))
	m.insert([]program.FieldMatch{{Value: u8(0)}}, 0, "label_carrier", "carrier_udp_sport")
	m.insert([]program.FieldMatch{{Value: u8(1)}}, 0, "label_carrier", "carrier_flow_label")
	for i := range uint32(64) {
		m.insert([]program.FieldMatch{{Value: u32(10<<24 | i), PrefixLen: 32}}, 0, "route_v4", "deliver", u32(i%16), []byte{2, 0, 0, 0, 0, byte(i)})
	}
	m.insert([]program.FieldMatch{{Any: true}}, 0, "route_v4", "forward_up", u8(1))
	for i := range uint8(16) {
		m.insert([]program.FieldMatch{{Value: u8(i), Mask: u8(15)}}, int32(i)+1, "source_route", "take_uplink", u8(16+i%4))
	}
	pr, _ := s.p.ProfileByName("ecmp_selector")
	_, up := m.target("ecmp", "take_uplink", u8(16))
	var mem []MemberID
	for i := range uint8(4) {
		c := up.Call
		c.Args = [][]byte{{16 + i}}
		id, err := s.AddMember(pr, c)
		if err != nil {
			tb.Fatal(err)
		}
		mem = append(mem, id)
	}
	g, err := s.CreateGroup(pr)
	if err == nil {
		err = s.SetGroup(pr, g, mem)
	}
	if err != nil {
		tb.Fatal(err)
	}
	t, _ := s.p.TableByName("ecmp")
	if _, err := s.Insert(t, Entry{Match: []program.FieldMatch{{Value: u8(1)}}, Target: Target{Kind: ByGroup, Group: g}}); err != nil {
		tb.Fatal(err)
	}
	for i := range uint32(32) {
		m.insert([]program.FieldMatch{{Value: u32(i)}}, 0, "ecn_profile", "mark_between", u32(100), u32(400), []byte{0x20, 0})
		m.insert([]program.FieldMatch{{Value: u32(i)}}, 0, "uplink_of_port", "set_uplink_index", u8(uint8(i)))
	}
	return s
}

// rocePacket is a RoCEv2 write to 10.x with a source port.
func rocePacket(dst uint32, sport uint16) []byte {
	p := make([]byte, 0, 80)
	p = append(p, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0)
	ip := []byte{0x45, 2, 0x23, 0x60, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 9, 9, 9}
	ip = binary.BigEndian.AppendUint32(ip, dst)
	binary.BigEndian.PutUint16(ip[10:], uint16(program.InternetChecksum(ip)))
	p = append(p, ip...)
	p = binary.BigEndian.AppendUint16(p, sport)
	p = append(p, 0x12, 0xb7, 0x23, 0x4c, 0, 0)
	p = append(p, 0x0a, 0x40, 0xff, 0xff, 0, 0, 0, 17, 0x80, 0, 0, 42) // BTH
	return append(p, make([]byte, 16)...)                              // RETH
}

// cpuTime reports CPU time besides the wall time of a machine that others use too.
func cpuTime(b *testing.B) func() {
	now := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			return 0
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	t0 := now()
	return func() { b.ReportMetric(float64(now()-t0)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkOwnProgram(b *testing.B) {
	for _, c := range []struct {
		name string
		data []byte
		port uint32
	}{
		{"down", rocePacket(10<<24|5, 0xc005), 5},
		{"up-labelled", rocePacket(11<<24|5, 0xc005), 17},
		{"up-ecmp", rocePacket(11<<24|5, 0x1005), 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := torSwitch(b)
			var out Batch
			in := Input{Port: 3, Data: c.data, Length: 9056, Now: 1000}
			q := QueueState{EnqTime: 1000, DeqTime: 2000, EnqDepth: 3, DeqDepth: 2}
			b.ReportAllocs()
			defer cpuTime(b)()
			for b.Loop() {
				out.Packets = out.Packets[:0]
				s.Ingress(in, &out)
				if len(out.Packets) != 1 {
					b.Fatalf("%d packets: %v", len(out.Packets), s.Drops())
				}
				o, ok := s.Egress(out.Packets[0], q, &out)
				if !ok || (c.port != 0 && o.Port != c.port) {
					b.Fatalf("port %d, %v", o.Port, s.Drops())
				}
			}
		})
	}
}

// BenchmarkStages takes the labelled packet apart.
func BenchmarkStages(b *testing.B) {
	s := torSwitch(b)
	var out Batch
	data := rocePacket(11<<24|5, 0xc005)
	fresh := func() *Packet {
		out.Packets = out.Packets[:0]
		s.Ingress(Input{Port: 3, Data: data, Length: 9056, Now: 1000}, &out)
		return out.Packets[0]
	}
	p := fresh()
	b.Run("reset", func(b *testing.B) {
		defer cpuTime(b)()
		for b.Loop() {
			clear(p.v[s.p.PHVLo:s.p.PHVHi])
		}
	})
	b.Run("parse", func(b *testing.B) {
		defer cpuTime(b)()
		for b.Loop() {
			p.pos = p.start
			s.runParser(p)
		}
	})
	for i := range s.p.Tables {
		t := &s.p.Tables[i]
		if len(t.Key) == 0 {
			continue
		}
		b.Run(fmt.Sprintf("table-%s", t.Info.Name), func(b *testing.B) {
			defer cpuTime(b)()
			for b.Loop() {
				s.applyTable(p, i)
			}
		})
	}
	p = fresh()
	b.Run("egress", func(b *testing.B) {
		defer cpuTime(b)()
		for b.Loop() {
			s.runCode(p, s.p.Egress)
		}
	})
	b.Run("checksum", func(b *testing.B) {
		defer cpuTime(b)()
		for b.Loop() {
			s.updateChecksums(p)
		}
	})
	b.Run("deparse", func(b *testing.B) {
		defer cpuTime(b)()
		for b.Loop() {
			s.deparsePacket(p)
		}
	})
}
