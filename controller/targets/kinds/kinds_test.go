package kinds

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

func TestProfiles(t *testing.T) {
	for _, name := range All().Names() {
		p, err := All().ByName(name)
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
	if _, err := All().ByName("tofino"); !errors.Is(err, targets.ErrProfile) || !strings.Contains(err.Error(), "stratum-tofino") {
		t.Errorf("an unknown name: %v", err)
	}
	for _, k := range All() {
		if _, err := k.Pack(targets.Compiled{Name: "ethereal", JSON: []byte("{")}); !errors.Is(err, targets.ErrProfile) {
			t.Errorf("%s packs half a program: %v", k.Name(), err)
		}
	}
	if p, err := All().ByName(""); err != nil || p.Name != targets.Default {
		t.Errorf("no name: %+v, %v", p, err)
	}
}

// TestCommands has each kind that the live world starts say how: ours, BMv2 with its gNMI server.
func TestCommands(t *testing.T) {
	b := targets.LaunchParams{
		Number: 17, DeviceID: 18, P4Runtime: "unix:s", GNMI: "unix:g", QueueDepth: 512, CPUPort: 510, EventPort: 508,
		Events: [2]string{"ev", "evp"}, Ports: []targets.LaunchPort{{Interface: "a", Shadow: "a1"}, {Interface: "b", Shadow: "b1"}},
	}
	const ours = "switch --no-p4 --device-id 18 --ethernet-names --log-console --log-level warn -i 1@a -i 2@b -- --grpc-server-addr unix:s " +
		"--cpu-port 510 --priority-queues 2 --send-buffer 65536 --queue-depth 512"
	want := map[string][2]string{
		"ethereal": {ours}, "pins": {ours},
		"bmv2": {
			"--no-p4 --device-id 18 --log-console -L warn --thrift-port 20017 -i 1@a1 -i 2@b1 -i 508@evp -- --grpc-server-addr unix:s " +
				"--cpu-port 510 --priority-queues 2",
			"gnmi --ethernet-names --listen-gnmi unix:g -i 1@a -i 2@b --event-interface ev",
		},
	}
	got := map[string][2]string{}
	for _, k := range Starters() {
		c := k.Command(b)
		got[k.Name()] = [2]string{strings.Join(c.Args, " "), strings.Join(c.Beside, " ")}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}
