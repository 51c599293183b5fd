package kinds

import (
	"errors"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

func TestProfiles(t *testing.T) {
	for _, name := range All().Names() {
		p, err := ByName(name)
		if err != nil {
			t.Fatal(err)
		}
		program := p.Program().Name
		if (p.QueueUnit > 0) != (program == "tna" || program == "t2na") {
			t.Errorf("%s: %+v", name, p)
		}
		if lacks := p.LacksTable(controller.PortOfUplink); lacks != (program != "v1model") {
			t.Errorf("%s: runs %v and lacks port_of_uplink: %v", name, program, lacks)
		}
		if p.Program().MoreRoom == "" || (p.Program().Files == "") != (program == "v1model") {
			t.Errorf("%s: %+v", name, p.Program())
		}
	}
	if _, err := ByName("tofino"); !errors.Is(err, targets.ErrProfile) || !strings.Contains(err.Error(), "stratum-tofino") {
		t.Errorf("an unknown name: %v", err)
	}
	for _, k := range All() {
		if _, err := k.Pack(targets.Compiled{Name: "ethereal", JSON: []byte("{")}); !errors.Is(err, targets.ErrProfile) {
			t.Errorf("%s packs half a program: %v", k.Name(), err)
		}
	}
	if p, err := ByName(""); err != nil || p.Name != targets.Default {
		t.Errorf("no name: %+v, %v", p, err)
	}
}
