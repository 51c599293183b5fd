package interp_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// snapshot reads everything that the control plane can.
func snapshot(s *interp.Switch) string {
	p := s.Program()
	out := ""
	for t := range p.Tables {
		id := program.TableID(t)
		d, ok := s.Default(id)
		out += fmt.Sprintln("default", t, d, ok)
		for h, e := range s.Entries(id) {
			c, set, _ := s.DirectMeter(id, h)
			n, b, _ := s.DirectCounter(id, h)
			out += fmt.Sprintln("entry", t, h, e, c, set, n, b)
		}
	}
	for pr := range p.Profiles {
		id := program.ProfileID(pr)
		for m, c := range s.Members(id) {
			live, _ := s.MemberLive(id, m)
			out += fmt.Sprintln("member", m, c, live)
		}
		for g, m := range s.Groups(id) {
			out += fmt.Sprintln("group", g, m)
		}
	}
	for i := range 4 {
		r, _ := s.Register(0, i)
		m, set, _ := s.Meter(0, i)
		n, b, _ := s.Counter(0, i)
		out += fmt.Sprintln("cell", i, string(r), m, set, n, b)
	}
	out += fmt.Sprintln(maps.Collect(s.CloneSessions()), maps.Collect(s.MulticastGroups()))
	return out
}

func TestRollbackRestoresEverything(t *testing.T) {
	p := load(t, "state.json")
	s := interp.NewSwitch(p, interp.Config{})
	x := table{t, s}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lpm, _ := p.TableByName("In.lpm_t")
	pr, _ := p.ProfileByName("In.sel")
	sel, call := x.call("In.sel_t", "In.forward", []byte{1})
	any1 := []program.FieldMatch{{Any: true}}
	h := x.add(0, any1, "In.lpm_t", "In.metered", []byte{1})
	m1, err := s.AddMember(pr, call)
	ok(err)
	m2, err := s.AddMember(pr, call)
	ok(err)
	g, err := s.CreateGroup(pr)
	ok(err)
	ok(s.SetGroup(pr, g, []interp.MemberID{m1, m2, m2}))
	sh, err := s.Insert(sel, interp.Entry{Match: []program.FieldMatch{{Value: []byte{6}}}, Target: interp.Target{Kind: interp.ByGroup, Group: g}})
	ok(err)
	ok(s.SetRegister(0, 1, []byte{7}))
	ok(s.SetMulticastGroup(1, []interp.Replica{{Port: 1}}))
	ok(s.SetCloneSession(1, interp.CloneSession{Truncate: 9}))

	before := snapshot(s)
	s.Begin()
	ok(s.SetDirectMeter(lpm, h, interp.MeterConfig{PIR: 5}))
	ok(s.SetDirectCounter(lpm, h, 4, 5))
	_, c := x.call("In.lpm_t", "In.metered", []byte{9})
	ok(s.Modify(lpm, h, interp.Target{Call: c}))
	ok(s.SetDefault(lpm, interp.Target{Call: c}))
	ok(s.Delete(lpm, h))
	x.add(0, any1, "In.lpm_t", "In.metered", []byte{3})
	ok(s.Modify(sel, sh, interp.Target{Kind: interp.ByMember, Member: m1}))
	ok(s.SetMemberLive(pr, m2, false))
	ok(s.DeleteGroup(pr, g))
	ok(s.DeleteMember(pr, m2))
	m3, err := s.AddMember(pr, call)
	ok(err)
	call.Args = [][]byte{{8}}
	ok(s.ModifyMember(pr, m1, call))
	g2, err := s.CreateGroup(pr)
	ok(err)
	ok(s.SetGroup(pr, g2, []interp.MemberID{m3}))
	ok(s.SetRegister(0, 1, []byte{9}))
	ok(s.SetRegister(0, 2, []byte{9}))
	ok(s.SetMeter(0, 0, interp.MeterConfig{PIR: 5}))
	ok(s.SetCounter(0, 3, 1, 2))
	ok(s.DeleteMulticastGroup(1))
	ok(s.SetMulticastGroup(2, nil))
	ok(s.DeleteCloneSession(1))
	if snapshot(s) == before {
		t.Fatal("nothing changed: the test tests nothing")
	}
	s.Rollback()
	if d := cmp.Diff(before, snapshot(s)); d != "" {
		t.Error(d)
	}
	// What was restored works, and what was taken is free again.
	if _, found := s.Find(lpm, any1, 0); !found {
		t.Error("restored entry is not found")
	}
	ok(s.Delete(sel, sh))
	ok(s.DeleteGroup(pr, g))
	ok(s.DeleteMember(pr, m2))
	ok(s.DeleteMember(pr, m1))
}
