package interp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// passed is what a packet became.
type passed struct {
	Port   uint32
	Data   []byte
	Length int
}

// fully takes a packet through the interpreter.
func fully(s *Switch, in Input, q QueueState) (out []passed) {
	b := &Batch{}
	s.Ingress(in, b)
	return finish(s, b, q, out)
}

// finish takes what Ingress made to the end.
func finish(s *Switch, b *Batch, q QueueState, out []passed) []passed {
	for i := 0; i < len(b.Packets); i++ {
		p := b.Packets[i]
		if p.Stage == StageIngress {
			s.Resume(p, q.DeqTime, b)
		} else if o, ok := s.Egress(p, q, b); ok {
			out = append(out, passed{o.Port, bytes.Clone(o.Data), o.Length})
		}
	}
	return out
}

// traced takes a packet through traces where there are any.
func traced(s *Switch, in Input, q QueueState) []passed {
	data := append(make([]byte, 0, len(in.Data)+TraceSlack), in.Data...)
	in.Data = data
	b := &Batch{}
	var h HeldPacket
	v, ok := s.TraceIngress(in, &h)
	switch {
	case !ok:
		s.Ingress(in, b)
		return finish(s, b, q, nil)
	case v.Drop:
		return nil
	}
	s.TraceKeep(data)
	length := max(in.Length, len(data))
	drop, ok := s.TraceEgress(data, length, &h, q)
	switch {
	case !ok:
		p := s.PacketFromHeld(data, length, &h)
		o, ok := s.Egress(p, q, b)
		var out []passed
		if ok {
			out = append(out, passed{o.Port, bytes.Clone(o.Data), o.Length})
		}
		return finish(s, b, q, out)
	case drop:
		return nil
	}
	return []passed{{v.Port, data, length}}
}

// sameState compares everything that packets change.
func sameState(a, b *Switch) error {
	if a.drops != b.drops {
		return fmt.Errorf("drops %v and %v", a.drops, b.drops)
	}
	if a.rng != b.rng || !reflect.DeepEqual(a.roundRobin, b.roundRobin) {
		return fmt.Errorf("random numbers differ")
	}
	for i := range a.counters {
		for k := range uint64(a.p.Counters[i].Size) {
			if x, y := a.counters[i].cell(k), b.counters[i].cell(k); !sameCell(x, y) {
				return fmt.Errorf("counter %q[%d]: %v and %v", a.p.Counters[i].Name, k, x, y)
			}
		}
	}
	for i := range a.registers {
		for k := range uint64(a.p.Registers[i].Size) {
			if x, y := a.registers[i].cell(k), b.registers[i].cell(k); !sameCell(x, y) {
				return fmt.Errorf("register %q[%d]: %v and %v", a.p.Registers[i].Name, k, x, y)
			}
		}
	}
	for i := range a.tables {
		if x, y := a.tables[i].counts, b.tables[i].counts; !reflect.DeepEqual(x, y) {
			return fmt.Errorf("table %q: direct counters %v and %v", a.p.Tables[i].Info.Name, x, y)
		}
		for k := range a.tables[i].entries {
			if x, y := a.tables[i].entries[k].lastHit, b.tables[i].entries[k].lastHit; x != y {
				return fmt.Errorf("table %q entry %d: last hit %d and %d", a.p.Tables[i].Info.Name, k, x, y)
			}
		}
	}
	return nil
}

// sameCell takes a cell that was never made for zeros.
func sameCell(x, y []uint64) bool {
	return reflect.DeepEqual(x, y) || isZeroWords(x) && isZeroWords(y)
}

// portEvent is the packet by which the program learns of a port.
func portEvent(port uint16, up byte, epoch uint32) []byte {
	p := make([]byte, 12, 30)
	p = append(p, 0x88, 0xB6, 1, up)
	p = binary.BigEndian.AppendUint16(p, port)
	return binary.BigEndian.AppendUint32(p, epoch)
}

// anyPacket draws a packet of the kinds a ToR switch meets, and some that it
// should not.
func anyPacket(r *rand.Rand) []byte {
	dst := uint32(10<<24) | uint32(r.IntN(80))
	sport := uint16(0xC000 | r.IntN(32))
	if r.IntN(4) == 0 {
		sport = uint16(r.Uint32())
	}
	p := rocePacket(dst, sport)
	const ip, udp, bth = 14, 34, 42
	p[bth] = []byte{6, 7, 8, 10, 0x11, 0x81, 0x12, byte(r.Uint32())}[r.IntN(8)]
	p[ip+8] = []byte{64, 63, 2, 1, 0}[r.IntN(5)]
	p[ip+1] = byte(r.Uint32())
	switch r.IntN(12) {
	case 0: // IPv6
		six := append([]byte{}, p[:14]...)
		six[12], six[13] = 0x86, 0xDD
		six = append(six, 0x60, 0xF, 0xC0, byte(r.Uint32()), 0x10, 0, 17, 3)
		six = append(six, bytes.Repeat([]byte{0xfd, byte(r.IntN(3))}, 16)...)
		p = append(six, p[udp:]...)
	case 1: // VLAN
		p = append(append(append([]byte{}, p[:12]...), 0x81, 0, 0x20, 5), p[12:]...)
	case 2:
		p = p[:r.IntN(len(p))]
	case 3:
		p[r.IntN(len(p))] ^= byte(1 << r.IntN(8))
	case 4: // fragments and options
		p[ip+7] = byte(r.IntN(2))
		p[ip] = byte(0x45 + r.IntN(2))
	case 5:
		p[udp+3]++
	case 6:
		p[ip+9] = 6
	case 7:
		p = portEvent(uint16(r.IntN(24)), byte(r.IntN(2)), 1+r.Uint32()>>8)
	}
	return p
}

// moveRoute takes the route to 10.0.0.host away and puts it back to another port,
// in a transaction that is undone first.
func moveRoute(m must, host, port uint32) {
	m.tb.Helper()
	match := []program.FieldMatch{{Value: u32(10<<24 | host), PrefixLen: 32}}
	table, _ := m.target("route_v4", "deliver", u32(port), []byte{2, 0, 0, 0, 0, byte(host)})
	for _, end := range []func(){m.s.Rollback, m.s.Commit} {
		m.s.Begin()
		h, ok := m.s.Find(table, match, 0)
		if !ok {
			m.tb.Fatalf("no route to %d", host)
		}
		if err := m.s.Delete(table, h); err != nil {
			m.tb.Fatal(err)
		}
		m.insert(match, 0, "route_v4", "deliver", u32(port), []byte{2, 0, 0, 0, 0, byte(host)})
		end()
	}
}

// Traces give what the interpreter gives: packets, counters, registers, random
// numbers, through random traffic in which ports die and tables change.
func TestTracesAgree(t *testing.T) {
	const packets = 60_000
	p := ownProgram(t)
	for _, seed := range []uint64{1, 2, 3} {
		traces := NewTraces(p)
		a := torSwitchOf(t, p)
		// Two switches share the traces, with different tables.
		b, c := torSwitchOf(t, p), torSwitchOf(t, p)
		for _, s := range []*Switch{b, c} {
			s.bindTraces(traces)
			if s.traces == nil {
				t.Fatal("the program cannot be traced at all")
			}
		}
		cPlain := torSwitchOf(t, p)
		for _, s := range []*Switch{c, cPlain} {
			must{t, s}.setDefault("device", "set_device", u32(2), u32(9), u8(4), u8(4), u8(3), u32(0xFFFFFFFF))
		}
		for _, s := range []*Switch{a, b, c, cPlain} {
			for i := range uint32(4) {
				if err := s.SetCloneSession(512+i, CloneSession{Replicas: []Replica{{Port: i}}, Truncate: 128, Class: 7}); err != nil {
					t.Fatal(err)
				}
				must{t, s}.insert([]program.FieldMatch{{Value: u8(uint8(i))}}, 0, "port_of_uplink", "take_uplink", u8(uint8(16+i)))
			}
		}
		r := rand.New(rand.NewPCG(seed, 7))
		now := int64(0)
		for i := range packets {
			now += int64(r.IntN(3000))
			data := anyPacket(r)
			in := Input{Port: uint32(r.IntN(4)), Data: data, Length: len(data) + r.IntN(2)*4096, Now: now}
			if len(data) > 13 && data[12] == 0x88 {
				in.Port = 508
				if r.IntN(3) > 0 {
					data[15] = 1 // mostly good news
				}
			}
			q := QueueState{EnqTime: now, DeqTime: now + int64(r.IntN(5000)), EnqDepth: r.Uint32N(1000), DeqDepth: r.Uint32N(600)}
			full, fast := a, b
			if i%3 == 0 {
				full, fast = cPlain, c
			}
			want, got := fully(full, in, q), traced(fast, in, q)
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d, packet %d, port %d, %x:\n interpreter %v\n traces      %v", seed, i, in.Port, data, want, got)
			}
			if i%1000 == 999 {
				for _, s := range []*Switch{full, fast} { // what a controller does meanwhile
					m := must{t, s}
					m.setDefault("device", "set_device", u32(1), u32(uint32(i)), u8(uint8(i/1000%8)), u8(4), u8(uint8(i/1000%8)), u32(uint32(i%2)*100))
					moveRoute(m, uint32(i/1000%64), uint32(i/1000%16))
				}
				if err := sameState(full, fast); err != nil {
					t.Fatalf("seed %d, packet %d: %v", seed, i, err)
				}
			}
		}
		for _, x := range [][2]*Switch{{a, b}, {cPlain, c}} {
			if err := sameState(x[0], x[1]); err != nil {
				t.Fatal(err)
			}
		}
		st := traces.Stats()
		if traces.Broken() || st.Ingress < packets/3 || st.Egress < packets/4 {
			t.Errorf("broken %v, of %d packets: %+v", traces.Broken(), packets, st)
		}
		t.Logf("%+v, %d instructions", st, len(traces.code))
	}
}

func BenchmarkTraced(b *testing.B) {
	for _, mode := range []string{"traced", "full"} {
		b.Run(mode, func(b *testing.B) {
			s := torSwitch(b)
			s.bindTraces(NewTraces(s.p))
			var packets [][]byte
			for i := range 64 {
				p := rocePacket(uint32(10<<24|i+40), uint16(0xC000|i%16))
				packets = append(packets, append(make([]byte, 0, len(p)+TraceSlack), p...))
			}
			q := QueueState{DeqDepth: 50}
			batch := &Batch{}
			var h HeldPacket
			scratch := make([]byte, 0, 256)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				scratch = append(scratch[:0], packets[i%64]...)
				in := Input{Port: 1, Data: scratch, Length: 4200}
				if mode == "traced" {
					if v, ok := s.TraceIngress(in, &h); ok && !v.Drop {
						s.TraceKeep(scratch)
						s.TraceEgress(scratch, 4200, &h, q)
						continue
					}
				}
				batch.Packets = batch.Packets[:0]
				s.Ingress(in, batch)
				s.Egress(batch.Packets[0], q, batch)
			}
		})
	}
}

// A packet that goes a recorded path allocates nothing: this is compared in tests
// because times cannot be.
func TestTracesDoNotAllocate(t *testing.T) {
	s := torSwitch(t)
	s.bindTraces(NewTraces(s.p))
	p := rocePacket(10<<24|50, 0xC003)
	data := make([]byte, len(p), len(p)+TraceSlack)
	var h HeldPacket
	pass := func() bool {
		copy(data, p)
		v, ok := s.TraceIngress(Input{Port: 1, Data: data, Length: 4200}, &h)
		if !ok || v.Drop {
			s.Ingress(Input{Port: 1, Data: data, Length: 4200}, &Batch{})
			return false
		}
		s.TraceKeep(data)
		drop, ok := s.TraceEgress(data, 4200, &h, QueueState{DeqDepth: 50})
		return ok && !drop
	}
	pass() // records ingress
	pass() // records egress
	if !pass() {
		t.Fatal("the path was not recorded")
	}
	if n := testing.AllocsPerRun(100, func() { pass() }); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}
