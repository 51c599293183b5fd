//go:build linux

package ebpf_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

var programs = []string{
	"../stf/testdata/route.json", "../stf/testdata/arith.json", "../interp/testdata/headers.json",
	"../interp/testdata/state.json", "../interp/testdata/replicate.json", "testdata/growth.json",
	"testdata/tables.json", "../interp/testdata/unions.json", "../interp/testdata/zero.json", "../interp/testdata/ragged.json",
	"../../p4src/build/ethereal.json",
}

func read(t testing.TB, name string) *program.Program {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// load skips where the kernel cannot be asked.
func load(t testing.TB, sw *interp.Switch) *ebpf.Switch {
	t.Helper()
	systemtest.Only(t)
	k, err := ebpf.Load(sw, ebpf.Config{QueuesPerPort: 8, Stopped: true, Ports: map[uint32]uint32{}})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("eBPF programs cannot be loaded here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	for port := range uint32(32) { // the interface of a run is the first
		if err := k.SetPort(port, 1); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// trials is how many packets a test sends: KERNEL_PACKETS, or few.
func trials(t *testing.T) int {
	t.Helper()
	text := os.Getenv("KERNEL_PACKETS")
	if text == "" {
		return 4000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("KERNEL_PACKETS: %v", err)
	}
	return n
}

// value is of width bits and mostly small, so that packets hit.
func value(rng *rand.Rand, width int) []byte {
	b := make([]byte, (width+7)/8)
	if width == 0 {
		return b
	}
	b[len(b)-1] = byte(rng.IntN(8))
	if rng.IntN(4) == 0 {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	if width%8 != 0 {
		b[0] &= 1<<(width%8) - 1
	}
	return b
}

// change makes a random change to a random table of both switches and the kernel.
func change(t *testing.T, rng *rand.Rand, k *ebpf.Switch, switches ...*interp.Switch) {
	t.Helper()
	tables := switches[0].Program().Tables
	id := program.TableID(rng.IntN(len(tables)))
	info := tables[id].Info
	if len(info.Actions) == 0 {
		return
	}
	act := info.Actions[rng.IntN(len(info.Actions))]
	target := interp.Target{Call: interp.ActionCall{Action: act.ID}}
	for _, p := range act.Params {
		target.Call.Args = append(target.Call.Args, value(rng, p.Width))
	}
	plain := target
	var apply func(sw *interp.Switch)
	if info.Profile >= 0 {
		if rng.IntN(3) > 0 {
			apply = changeProfile(rng, info.Profile, target.Call)
		} else {
			target = pick(rng, switches[0], info.Profile)
		}
	}
	switch e := entry(rng, info, target); {
	case apply != nil:
	case info.DirectMeter >= 0 && rng.IntN(8) == 0:
		apply = func(sw *interp.Switch) {
			for h := range sw.Entries(id) {
				_ = sw.SetDirectMeter(id, h, interp.MeterConfig{})
				return
			}
		}
	case info.DirectMeter >= 0 && rng.IntN(8) == 0:
		apply = func(sw *interp.Switch) {
			for h := range sw.Entries(id) {
				_ = sw.ClearDirectMeter(id, h)
				return
			}
		}
	case len(info.Key) == 0 || rng.IntN(8) == 0:
		if info.Profile >= 0 && rng.IntN(4) > 0 {
			target = plain
		}
		apply = func(sw *interp.Switch) { _ = sw.SetDefault(id, target) }
	case rng.IntN(4) == 0:
		nth := rng.IntN(8)
		apply = func(sw *interp.Switch) {
			n := 0
			for h := range sw.Entries(id) {
				if n++; n > nth {
					_ = sw.Delete(id, h)
					return
				}
			}
		}
	default:
		apply = func(sw *interp.Switch) { _, _ = sw.Insert(id, e) }
	}
	transaction := rng.IntN(8)
	for _, sw := range switches {
		if transaction < 2 {
			sw.Begin()
		}
		apply(sw)
		switch transaction {
		case 0:
			sw.Rollback()
		case 1:
			sw.Commit()
		}
	}
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
}

// pick is a random member or group.
func pick(rng *rand.Rand, sw *interp.Switch, id program.ProfileID) interp.Target {
	var all []interp.Target
	for m := range sw.Members(id) {
		all = append(all, interp.Target{Kind: interp.ByMember, Member: m})
	}
	for g := range sw.Groups(id) {
		all = append(all, interp.Target{Kind: interp.ByGroup, Group: g}, interp.Target{Kind: interp.ByGroup, Group: g})
	}
	if len(all) == 0 {
		return interp.Target{Kind: interp.ByMember}
	}
	return all[rng.IntN(len(all))]
}

// changeProfile is a random change to an action profile.
func changeProfile(rng *rand.Rand, id program.ProfileID, call interp.ActionCall) func(*interp.Switch) {
	what, which, live := rng.IntN(8), rng.IntN(100), rng.IntN(2) == 0
	var places []int
	for range rng.IntN(6) {
		places = append(places, rng.IntN(100))
	}
	return func(sw *interp.Switch) {
		members, groups := []interp.MemberID{0}, []interp.GroupID{0}
		for m := range sw.Members(id) {
			members = append(members, m)
		}
		for g := range sw.Groups(id) {
			groups = append(groups, g)
		}
		member, group := members[which%len(members)], groups[which%len(groups)]
		switch what {
		case 0, 1:
			_, _ = sw.AddMember(id, call)
		case 2:
			_ = sw.ModifyMember(id, member, call)
		case 3:
			_ = sw.DeleteMember(id, member)
		case 4:
			_ = sw.SetMemberLive(id, member, live)
		case 5:
			_, _ = sw.CreateGroup(id)
		case 6:
			_ = sw.DeleteGroup(id, group)
		default:
			var list []interp.MemberID
			for _, p := range places {
				list = append(list, members[p%len(members)])
			}
			_ = sw.SetGroup(id, group, list)
		}
	}
}

// entry is a random one.
func entry(rng *rand.Rand, info program.TableInfo, target interp.Target) interp.Entry {
	e := interp.Entry{Target: target}
	for _, f := range info.Key {
		m := program.FieldMatch{Value: value(rng, f.Width), PrefixLen: f.Width - rng.IntN(4)}
		if rng.IntN(3) == 0 {
			m.PrefixLen = rng.IntN(f.Width + 1)
		}
		m.PrefixLen = max(0, m.PrefixLen)
		switch f.Kind {
		case program.Ternary, program.Optional:
			m.Mask = make([]byte, len(m.Value))
			for i := range m.Mask {
				m.Mask[i] = 0xff << rng.IntN(3)
			}
			if f.Width%8 != 0 {
				m.Mask[0] &= 1<<(f.Width%8) - 1
			}
			m.Any = rng.IntN(4) == 0
		case program.Range:
			if m.High = value(rng, f.Width); bytes.Compare(m.Value, m.High) > 0 {
				m.Value, m.High = m.High, m.Value
			}
			m.Any = rng.IntN(4) == 0
		}
		e.Match = append(e.Match, m)
		if f.Kind > program.LPM {
			e.Priority = int32(1 + rng.IntN(100))
		}
	}
	return e
}

// frame is noise with the bytes that the programs select on mostly in range,
// or a packet of IPv4 or IPv6 and UDP, perhaps cut short.
func frame(rng *rand.Rand) []byte {
	f := make([]byte, 14+rng.IntN(120))
	for i := range f {
		f[i] = byte(rng.Uint32())
		if rng.IntN(2) == 0 {
			f[i] = byte(rng.IntN(8))
		}
	}
	if rng.IntN(3) == 0 {
		f[12] |= 0x10 // neither IPv4 nor IPv6
		return f
	}
	copy(f[12:], [][]byte{{8, 0, 0x45, byte(rng.IntN(4))}, {0x86, 0xdd, 0x60}, {0x81, 0, 0, 1, 8, 0, 0x45}}[rng.IntN(3)])
	if len(f) < 54 && f[12] != 0x81 {
		f[12] = 0x99 // a run takes no IP packet without a whole IP header
	}
	if len(f) > 60 && f[12] == 8 {
		f[14] = 0x45
		defer sumIP(f[14:34])
		f[22], f[23] = 64, []byte{17, 6, 1}[rng.IntN(3)]
		copy(f[30:], []byte{byte(rng.IntN(2) * 10), 0, 0, byte(rng.IntN(8))})
		if rng.IntN(2) == 0 {
			copy(f[34:], []byte{byte(rng.Uint32()), byte(rng.Uint32()), 0x12, 0xb7}) // RoCEv2
			f[42] = []byte{4, 6, 10, 17, 0x81}[rng.IntN(5)]
		}
	}
	return f
}

// sumIP puts an IPv4 header's checksum in.
func sumIP(h []byte) {
	h[10], h[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(h[10:], ^uint16(sum))
}

// result is what left the interpreter, in words.
func result(port uint32, data []byte) string { return fmt.Sprintf("port %d: %x", port, data) }

// TestAgainstInterpreter pushes the same random packets through a program in the
// kernel and in the interpreter, whose tables change alike meanwhile: the same
// bytes leave by the same port, or the kernel lets the packet through.
func TestAgainstInterpreter(t *testing.T) {
	packets := trials(t)
	for _, name := range programs {
		t.Run(name[strings.LastIndex(name, "/")+1:], func(t *testing.T) {
			p := read(t, name)
			cfg := interp.Config{QueuesPerPort: 8}
			sw, judge := interp.NewSwitch(p, cfg), interp.NewSwitch(p, cfg)
			k := load(t, sw)
			x := trial{k: k, sw: sw, judge: judge}
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range packets {
				if i < 60 || i%20 == 0 {
					change(t, rng, k, sw, judge)
				}
				if i%50 == 0 {
					x.from(t, rng.Uint32N(8))
				}
				data := frame(rng)
				x.packet(t, i, data)
			}
			compareCounters(t, sw, judge)
			report(t, k)
		})
	}
}

// report says how many packets went which way.
func report(t *testing.T, k *ebpf.Switch) {
	t.Helper()
	fates, err := k.Fates()
	if err := errors.Join(err, k.Err()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d instructions; forwarded %d, dropped %d, up:", k.Instructions(), fates[0], fates[1]+fates[2]+fates[3]+fates[4])
	for i, c := range k.Constructs() {
		if n := fates[ebpf.FateUp+i]; n > 0 {
			t.Logf("%6d %s", n, c)
		}
	}
}

// trial is a program in the kernel, the interpreter's switch beside it, which
// gets what is let through, and one that gets all.
type trial struct {
	k         *ebpf.Switch
	sw, judge *interp.Switch
	port      uint32
}

// from has packets come from a port from now on.
func (x *trial) from(t *testing.T, port uint32) {
	t.Helper()
	if err := x.k.SetPort(port, 1); err != nil {
		t.Fatal(err)
	}
	x.port = port
}

func (x *trial) process(sw *interp.Switch, data []byte) string {
	var out []string
	sw.Process(interp.Input{Port: x.port, Data: data}, func(o interp.Output) { out = append(out, result(o.Port, o.Data)) })
	return strings.Join(out, "\n")
}

// packet holds what becomes of one packet against what the judge makes of it.
func (x *trial) packet(t *testing.T, i int, data []byte) {
	t.Helper()
	got, err := x.k.Run(data)
	if err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	want, have := x.process(x.judge, data), ""
	switch got.Fate {
	case ebpf.FateForwarded, ebpf.FateNoPort:
		have = result(got.Port, got.Data)
	case ebpf.FateDroppedIngress, ebpf.FateDroppedEgress, ebpf.FatePriority:
	default:
		if !bytes.Equal(got.Data, data) {
			t.Fatalf("packet %d, %x, is let through as %x", i, data, got.Data)
		}
		have = x.process(x.sw, data)
	}
	if want != have {
		t.Fatalf("packet %d from port %d, %x:\nkernel, fate %d: %s\ninterpreter: %s", i, x.port, data, got.Fate, have, want)
	}
}

// compareCounters holds what the switch in the kernel says that it and the interpreter counted against what one switch
// counted that saw all packets.
func compareCounters(t *testing.T, sw, judge *interp.Switch) {
	t.Helper()
	compare := func(what string, p, b, wp, wb uint64, errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil || p != wp || b != wb {
			t.Errorf("%s: %d packets and %d bytes, not %d and %d: %v", what, p, b, wp, wb, err)
		}
	}
	for id, c := range sw.Program().Counters {
		for i := range min(c.Size, 64) {
			p, b, err1 := sw.Counter(program.CounterID(id), i)
			wp, wb, err2 := judge.Counter(program.CounterID(id), i)
			compare(fmt.Sprintf("counter %s[%d]", c.Name, i), p, b, wp, wb, err1, err2)
		}
	}
	for id, table := range sw.Program().Tables {
		info := table.Info
		if !info.HasDirectCounter {
			continue
		}
		for h := range sw.Entries(program.TableID(id)) {
			p, b, err1 := sw.DirectCounter(program.TableID(id), h)
			wp, wb, err2 := judge.DirectCounter(program.TableID(id), h)
			compare(fmt.Sprintf("table %s, entry %d", info.Name, h), p, b, wp, wb, err1, err2)
		}
	}
}

// TestChangedPrograms loads programs with a few digits changed. Whatever the
// interpreter takes is taken by the kernel's verifier or refused before it, and
// packets fare alike. KERNEL_PROGRAMS says how many; 30 by default.
func TestChangedPrograms(t *testing.T) {
	systemtest.Only(t)
	count := 30
	if n, err := strconv.Atoi(os.Getenv("KERNEL_PROGRAMS")); err == nil {
		count = n
	}
	rng := rand.New(rand.NewPCG(5, 6))
	loaded := 0
	for i := range count {
		b, err := os.ReadFile(programs[rng.IntN(len(programs)-2)])
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(4) {
			at := rng.IntN(len(b))
			if k := bytes.IndexAny(b[at:], "0123456789"); k >= 0 {
				b[at+k] = byte('0' + rng.IntN(10))
			}
		}
		p, err := program.Load(b)
		if err != nil {
			continue
		}
		cfg := interp.Config{QueuesPerPort: 8, MaxPasses: 8, MaxLoops: 1 << 16}
		sw, judge := interp.NewSwitch(p, cfg), interp.NewSwitch(p, cfg)
		k, err := ebpf.Load(sw, ebpf.Config{QueuesPerPort: 8, Stopped: true})
		switch {
		case errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS):
			t.Skipf("eBPF programs cannot be loaded here: %v", err)
		case errors.Is(err, program.ErrUnsupported):
			continue
		case err != nil:
			t.Errorf("program %d: %v", i, err)
			continue
		}
		loaded++
		x := trial{k: k, sw: sw, judge: judge}
		x.from(t, 1)
		for n := range 50 {
			x.packet(t, n, frame(rng))
		}
		k.Close()
	}
	if loaded == 0 {
		t.Error("nothing loaded: the test reaches nothing")
	}
	t.Logf("%d of %d loaded", loaded, count)
}
