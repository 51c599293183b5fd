package p4rt

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
)

// chipFiles are what p4c wrote of the program of each architecture.
var chipFiles = map[string]string{
	"tna":  "../../p4src/build/tna/tofino",
	"t2na": "../../p4src/build/tna/tofino2",
}

// TestChipPrograms reads what p4c wrote of the chips' programs as the controller
// does, for each kind of switch that runs them: all tables are there that the kind
// is not said to lack, with their keys, actions and parameters, and the schema that
// is packed for the switch names them as the P4Info does.
func TestChipPrograms(t *testing.T) {
	for _, name := range kinds.All().Names() {
		profile, err := kinds.All().ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		files, ok := chipFiles[profile.Program().Name]
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(files + ".p4info.txtpb")
			if err != nil {
				t.Fatal(err)
			}
			info, err := ParseP4Info(text)
			if err != nil {
				t.Fatal(err)
			}
			bfrt, err := os.ReadFile(files + ".bf-rt.json")
			if err != nil {
				t.Fatal(err)
			}
			p, err := PipelineFor(profile, nil, info, targets.Compiled{Name: "ethereal", BFRT: bfrt})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"context", "binary"}, p.Uncompiled()); diff != "" {
				t.Errorf("what is not compiled (-want +got):\n%s", diff)
			}
			if err := p.Install(t.Context(), nil, Writer{}); !errors.Is(err, targets.ErrProfile) {
				t.Errorf("half a program is pushed: %v", err)
			}
			if _, err := NewSchema(info); err == nil {
				t.Errorf("the kind is said to lack %v, and its program does not", profile.Lacks)
			}
			if _, err := p.Schema().PacketOut(1, nil); err != nil {
				t.Errorf("packet-out: %v", err)
			}
			if got := p.Schema().MaxGroupSize(); got < 2 {
				t.Errorf("an ECMP group may have %d shares", got)
			}
			var schema struct {
				Tables []struct{ Name string }
			}
			if err := json.Unmarshal(bfrt, &schema); err != nil {
				t.Fatal(err)
			}
			known := map[string]bool{}
			for _, table := range schema.Tables {
				known[table.Name] = true
			}
			for _, table := range controller.Tables() {
				if table.Replicated() || table.Layout().Optional || profile.LacksTable(table) {
					continue
				}
				if full := "pipe." + table.String(); !known[full] {
					t.Errorf("the BF-RT schema has no table %s", full)
				}
			}
		})
	}
}
