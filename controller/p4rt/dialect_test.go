package p4rt

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
)

// TestDialect writes tables in the numbers of a chip and reads them back.
func TestDialect(t *testing.T) {
	for _, name := range []string{"stratum-tofino", "stratum-tofino2"} {
		t.Run(name, func(t *testing.T) { testDialect(t, name) })
	}
}

func testDialect(t *testing.T, name string) {
	profile, err := kinds.All().ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	var ports []targets.Port
	for i := range 64 {
		ports = append(ports, targets.Port{Name: fmt.Sprintf("%d/0", i+1), ID: uint32(452 - 4*i), Lanes: 4})
	}
	for _, es := range someTables(t) {
		sessions := 0 // as many as the switch has ports
		for _, e := range es {
			if e.Table == controller.CloneSession {
				sessions++
			}
		}
		s := testSchema(t).ForDialect(NewDialect(profile, 1, must(t, ports[:sessions])))
		var held Tables
		written := 0
		batches, err := s.WriteRequests(Writer{BatchSize: 100}, controller.Diff(nil, es))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batches {
			if len(b.Request.GetUpdates()) != len(b.Updates) {
				t.Fatalf("%d updates as %d", len(b.Updates), len(b.Request.GetUpdates()))
			}
			for _, u := range b.Request.GetUpdates() {
				if te := u.GetEntity().GetTableEntry(); te != nil && te.GetTableId() == s.TableID(controller.PortOfUplink) {
					t.Fatal("a table that the switch lacks is written")
				}
				if cs := u.GetEntity().GetPacketReplicationEngineEntry().GetCloneSessionEntry(); cs != nil {
					id := cs.GetReplicas()[0].GetEgressPort() //nolint:staticcheck // what Stratum understands
					want := controller.CloneSessions + id
					if profile.CloneSession != 0 {
						want = profile.CloneSession
					}
					if cs.GetSessionId() != want || id < 200 || int(cs.GetPacketLengthBytes()) != profile.CloneBytes {
						t.Fatalf("clone session %v", cs)
					}
					written++
				}
				held.addEntity(s, u.GetEntity())
			}
		}
		if profile.CloneSession != 0 && written != 1 {
			t.Fatalf("%d clone sessions written", written)
		}
		held.Entries = s.addLackingEntries(held.Entries)
		slices.SortFunc(held.Entries, func(a, b controller.Entry) int { return a.Compare(b.Key) })
		if len(held.Stray) > 0 {
			t.Fatal(held.StrayReasons[0])
		}
		if diff := cmp.Diff(s.ExpectedEntries(es), held.Entries); diff != "" {
			t.Fatalf("read back (-want +got):\n%s", diff)
		}
	}

	small := testSchema(t).ForDialect(Dialect{Ports: must(t, ports[:1])})
	e := controller.Entry{Key: controller.Key{Table: controller.ECNProfile, Value: controller.Value{Lo: 2}}, Action: controller.MarkBetween}
	if _, err := small.EncodeEntry(e, false); !errors.Is(err, ErrEntry) {
		t.Errorf("a port that is not mapped: %v", err)
	}
}

func must(t *testing.T, ports []targets.Port) *targets.PortMap {
	t.Helper()
	m, err := targets.NewPortMap(ports)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
