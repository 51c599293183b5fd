//go:build linux

package ebpf_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// tables is testdata/tables.p4 in the kernel and in the interpreter.
func tables(t *testing.T) (x trial, insert func(table, action string, priority int32, match []program.FieldMatch, args ...[]byte) error) {
	t.Helper()
	p := read(t, "testdata/tables.json")
	cfg := interp.Config{QueuesPerPort: 8}
	sw, judge := interp.NewSwitch(p, cfg), interp.NewSwitch(p, cfg)
	x = trial{k: load(t, sw), sw: sw, judge: judge}
	x.from(t, 1)
	return x, func(table, action string, priority int32, match []program.FieldMatch, args ...[]byte) error {
		id, _ := p.TableByName("In." + table)
		a, ok := p.ActionByName(id, "In."+action)
		if !ok {
			t.Fatalf("no action %q of table %q", action, table)
		}
		e := interp.Entry{Match: match, Priority: priority, Target: interp.Target{Call: interp.ActionCall{Action: a, Args: args}}}
		if _, err := judge.Insert(id, e); err != nil {
			return err
		}
		_, err := sw.Insert(id, e)
		return err
	}
}

// asks is a packet of testdata/tables.p4.
func asks(op byte, a, b uint16, c uint32, d byte) []byte {
	p := append(make([]byte, 14), op)
	p = binary.BigEndian.AppendUint16(p, a)
	p = binary.BigEndian.AppendUint16(p, b)
	p = binary.BigEndian.AppendUint32(p, c)
	return append(p, d, 1, 2, 3)
}

// up is how many packets the kernel has passed to the interpreter.
func up(t *testing.T, k *ebpf.Switch) (n uint64) {
	t.Helper()
	fates, err := k.Fates()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fates[ebpf.FateUp:] {
		n += f
	}
	return n
}

// TestManyMasks fills a ternary table with entries of one mask each, then with more than the kernel takes, and deletes
// them again. Packets match many entries, some of equal priorities.
func TestManyMasks(t *testing.T) {
	x, insert := tables(t)
	rng := rand.New(rand.NewPCG(7, 8))
	id, _ := x.sw.Program().TableByName("In.masks")
	seen := map[uint32]bool{}
	add := func(n int) {
		t.Helper()
		for range n {
			for {
				mask := rng.Uint32() & rng.Uint32() & rng.Uint32()
				if seen[mask] {
					continue
				}
				seen[mask] = true
				match := []program.FieldMatch{{Value: binary.BigEndian.AppendUint32(nil, rng.Uint32()&mask&0x0f0f0f0f), Mask: binary.BigEndian.AppendUint32(nil, mask)}}
				if insert("masks", "mask", 1+rng.Int32N(100), match, binary.BigEndian.AppendUint16(nil, uint16(rng.Uint32()))) == nil {
					break
				}
			}
		}
		if err := x.k.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	send := func() (passed uint64) {
		t.Helper()
		before := up(t, x.k)
		for i := range 300 {
			x.packet(t, i, asks(0, 0, 0, rng.Uint32()&rng.Uint32(), 0))
		}
		return up(t, x.k) - before
	}
	for _, n := range []int{1, 63, 1, 300} {
		if add(n); send() != 0 {
			t.Fatal("packets go up")
		}
	}
	if add(400); send() != 300 {
		t.Error("765 masks: the kernel tries 512")
	}
	n := 0
	for h := range x.sw.Entries(id) {
		if n++; n%2 == 0 {
			if err := x.sw.Delete(id, h); err != nil {
				t.Fatal(err)
			}
			if err := x.judge.Delete(id, h); err != nil {
				t.Fatal(err)
			}
		}
	}
	if add(0); send() != 0 {
		t.Error("packets go up when the masks are few again")
	}
	report(t, x.k)
	if info, err := x.k.Program().Info(); err == nil {
		followed, _ := info.VerifiedInstructions()
		t.Logf("the verifier followed %d instructions", followed)
	}
}

// TestRanges: the bounds of ranges, of all widths of their prefixes. An entry whose ranges have too many sends packets
// up as long as it is there.
func TestRanges(t *testing.T) {
	x, insert := tables(t)
	u16 := func(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
	bounds := [][2]int{{0, 0}, {0, 65535}, {1, 65534}, {80, 80}, {1024, 65535}, {5, 12}, {32768, 32768}, {32767, 32768}}
	for i, b := range bounds {
		match := []program.FieldMatch{{Any: true}, {Value: u16(b[0]), High: u16(b[1])}, {Value: []byte{byte(i)}, High: []byte{byte(i + 3)}}, {Any: true}}
		if err := insert("acl", "permit", int32(1+i%3), match, u16(100+i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.k.Sync(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range bounds {
		for _, at := range []int{b[0] - 1, b[0], b[0] + 1, b[1] - 1, b[1], b[1] + 1} {
			for d := range byte(12) {
				x.packet(t, n, asks(0, 0, uint16(at), 0, d))
				n++
			}
		}
	}
	if n := up(t, x.k); n != 0 {
		t.Fatalf("%d packets go up", n)
	}
	report(t, x.k)
	compareCounters(t, x.sw, x.judge)
}

// TestRangesFull: entries whose keys the kernel's map has no room for send packets up, and take no memory. They go into
// the kernel when others are deleted.
func TestRangesFull(t *testing.T) {
	x, insert := tables(t)
	id, _ := x.sw.Program().TableByName("In.acl")
	n := 0
	add := func() {
		t.Helper()
		match := []program.FieldMatch{{Value: []byte{0, byte(n)}, Mask: []byte{255, 255}}, {Value: []byte{0, 1}, High: []byte{0xff, 0xfe}},
			{Value: []byte{1}, High: []byte{254}}, {Any: true}} // 30 times 14 keys
		if err := insert("acl", "permit", 1, match, []byte{0, byte(n)}); err != nil {
			t.Fatal(err)
		}
		n++
	}
	_, most := x.k.Keys("In.acl")
	sync := func(fits bool) {
		t.Helper()
		if err := x.k.Sync(); err != nil {
			t.Fatal(err)
		}
		if keys, _ := x.k.Keys("In.acl"); keys > most {
			t.Errorf("%d keys, and the kernel takes %d", keys, most)
		}
		before := up(t, x.k)
		for i := range n + 2 {
			x.packet(t, i, asks(0, uint16(i), 99, 5, 9))
		}
		if sent := up(t, x.k) > before; sent == fits {
			t.Errorf("packets go up: %v; all entries fit: %v", sent, fits)
		}
	}
	for (n+1)*420 <= most {
		add()
	}
	sync(true)
	for range 20 {
		add()
	}
	sync(false)
	gone := 0
	for h := range x.sw.Entries(id) {
		if gone++; gone <= 20 {
			for _, sw := range []*interp.Switch{x.sw, x.judge} {
				if err := sw.Delete(id, h); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	sync(true)
	report(t, x.k)
	compareCounters(t, x.sw, x.judge)
}

// TestSyncCostsChanges: Sync looks at what has changed, however large the table is, and a transaction that is rolled
// back leaves what was there.
func TestSyncCostsChanges(t *testing.T) {
	x, insert := tables(t)
	match := func(i int) []program.FieldMatch {
		return []program.FieldMatch{{Value: binary.BigEndian.AppendUint32(nil, uint32(i)), Mask: []byte{0xff, 0xff, 0xff, 0xff}}}
	}
	for i := range 1000 {
		if err := insert("masks", "mask", 1, match(i), binary.BigEndian.AppendUint16(nil, uint16(i))); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(want int) {
		t.Helper()
		if n := x.k.Dirty(); n != want {
			t.Errorf("Sync looks at %d entries; %d are new", n, want)
		}
		if err := x.k.Sync(); err != nil {
			t.Fatal(err)
		}
		for i := range 1002 {
			x.packet(t, i, asks(0, 0, 0, uint32(i), 0))
		}
	}
	sync(1000)
	if err := insert("masks", "mask", 1, match(1000), []byte{1, 2}); err != nil {
		t.Fatal(err)
	}
	sync(1)
	id, _ := x.sw.Program().TableByName("In.masks")
	h, ok := x.sw.Find(id, match(500), 1)
	if !ok {
		t.Fatal("no entry")
	}
	x.sw.Begin()
	if err := x.sw.Delete(id, h); err != nil {
		t.Fatal(err)
	}
	e := interp.Entry{Match: match(1001), Priority: 1, Target: interp.Target{Call: interp.ActionCall{Action: x.sw.Program().Tables[id].Info.Actions[0].ID, Args: [][]byte{{1}}}}}
	if _, err := x.sw.Insert(id, e); err != nil {
		t.Fatal(err)
	}
	x.sw.Rollback()
	sync(2)
}

// TestProfiles: members and groups with weights are the kernel's, also dead members, a group that has none alive, and
// what changes while entries name it.
func TestProfiles(t *testing.T) {
	x, _ := tables(t)
	p := x.sw.Program()
	choices, _ := p.TableByName("In.choices")
	profiled, _ := p.TableByName("In.profiled")
	choose, _ := p.ActionByName(choices, "In.choose")
	add, _ := p.ActionByName(profiled, "In.add")
	call := func(a program.ActionID, args ...[]byte) interp.ActionCall {
		return interp.ActionCall{Action: a, Args: args}
	}
	both := func(f func(sw *interp.Switch) error) {
		t.Helper()
		for _, sw := range []*interp.Switch{x.sw, x.judge} {
			if err := f(sw); err != nil {
				t.Fatal(err)
			}
		}
		if err := x.k.Sync(); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			x.packet(t, i, asks(byte(i%8), 0, uint16(i*77), uint32(i*i), byte(i%4)))
		}
	}
	wcmp, plain := p.Tables[choices].Info.Profile, p.Tables[profiled].Info.Profile
	var members []interp.MemberID
	var group, none interp.GroupID
	both(func(sw *interp.Switch) (err error) {
		members = nil
		for i := range byte(4) {
			m, err := sw.AddMember(wcmp, call(choose, []byte{i + 1, 0}, []byte{0, i}))
			if err != nil {
				return err
			}
			members = append(members, m)
		}
		if group, err = sw.CreateGroup(wcmp); err == nil {
			none, err = sw.CreateGroup(wcmp)
		}
		if err != nil {
			return err
		}
		for i, to := range []interp.Target{{Kind: interp.ByMember, Member: members[0]}, {Kind: interp.ByGroup, Group: group}, {Kind: interp.ByGroup, Group: none}} {
			e := interp.Entry{Match: []program.FieldMatch{{Value: []byte{byte(i)}, Mask: []byte{255}}}, Priority: 1, Target: to}
			if _, err := sw.Insert(choices, e); err != nil {
				return err
			}
		}
		m, err := sw.AddMember(plain, call(add, []byte{1, 1}))
		if err == nil {
			_, err = sw.Insert(profiled, interp.Entry{Match: []program.FieldMatch{{Value: []byte{1}}}, Target: interp.Target{Kind: interp.ByMember, Member: m}})
		}
		return err
	})
	both(func(sw *interp.Switch) error {
		return sw.SetGroup(wcmp, group, []interp.MemberID{members[0], members[1], members[1], members[2], members[3]})
	})
	both(func(sw *interp.Switch) error { return sw.SetMemberLive(wcmp, members[1], false) })
	both(func(sw *interp.Switch) error {
		return sw.ModifyMember(wcmp, members[2], call(choose, []byte{9, 9}, []byte{0, 7}))
	})
	both(func(sw *interp.Switch) error { return sw.SetMemberLive(wcmp, members[1], true) })
	both(func(sw *interp.Switch) error { return sw.SetGroup(wcmp, group, members[:1]) })
	both(func(sw *interp.Switch) error { return sw.DeleteMember(wcmp, members[3]) })
	for i, c := range x.k.Constructs() {
		fates, err := x.k.Fates()
		if err != nil {
			t.Fatal(err)
		}
		if n := fates[ebpf.FateUp+i]; n > 0 && c != "a write to a register in ingress" && c != "truncate in egress" {
			t.Errorf("%d packets go up: %s", n, c)
		}
	}
	compareCounters(t, x.sw, x.judge)
	report(t, x.k)
}
