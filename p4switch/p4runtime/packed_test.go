package p4runtime

import (
	"encoding/binary"
	"runtime"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// Fields come back in the order in which they were written, and with the action that a MODIFY gave, also after a batch
// that was rolled back.
func TestReadsWhatTheKeyDoesNotTell(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		const (
			turned = `table_entry { table_id: $acl priority: 7 match { field_id: 3 optional { value: "\x12\x34" } }
				match { field_id: 1 ternary { value: "\x08" mask: "\xff" } } action { action { action_id: $pass } } }`
			some = `table_entry { table_id: $acl priority: 8 match { field_id: 2 range { low: "\x03" high: "\x04" } } `
		)
		d.mustWrite(insert(t, turned), insert(t, some+deny+"}"))
		d.mustWrite(modify(t, some+`action { action { action_id: $pass } } }`))
		rolledBack := batch(modify(t, some+deny+"}"), remove(t, turned), insert(t, `table_entry { table_id: $acl priority: 9 }`))
		rolledBack.Atomicity = p4.WriteRequest_ROLLBACK_ON_ERROR
		if d.write(rolledBack) == nil {
			t.Fatal("an entry without action was accepted")
		}
		want := []*p4.Entity{entity(t, turned), entity(t, some+`action { action { action_id: $pass } } }`)}
		if diff := sameEntities(want, d.mustRead(`table_entry { table_id: $acl }`)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestEntrySize holds what an entry of a large table takes: not the messages of its request.
func TestEntrySize(t *testing.T) {
	cfg := routes(t)
	core, err := New(Config{DeviceID: 1, Now: func() int64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Install(cfg); err != nil {
		t.Fatal(err)
	}
	if err := core.OpenStream(func(*p4.StreamMessageResponse) error { return nil }).Recv(arbitration(1, "", id(1))); err != nil {
		t.Fatal(err)
	}
	table, action := cfg.GetP4Info().GetTables()[0].GetPreamble().GetId(), uint32(0)
	for _, a := range cfg.GetP4Info().GetActions() {
		if a.GetPreamble().GetAlias() == "forward" {
			action = a.GetPreamble().GetId()
		}
	}
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const entries = 50_000
	before := heap()
	for n := range uint32(entries) {
		if err := core.Write(&p4.WriteRequest{DeviceId: 1, ElectionId: id(1), Updates: []*p4.Update{{
			Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
				TableId: table,
				Match: []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{
					Value: binary.BigEndian.AppendUint32(nil, 10<<24+n), PrefixLen: 32}}}},
				Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{ActionId: action,
					Params: []*p4.Action_Param{{ParamId: 1, Value: []byte{2}}}}}},
			}}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / entries
	t.Logf("%d bytes an entry", each)
	if each > 400 {
		t.Errorf("an entry takes %d bytes", each)
	}
	runtime.KeepAlive(core)
}
