package main

import (
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestWorldFlags: what a world does not carry out is refused, with the reason, before anything is read: the scenario
// that is named is not there.
func TestWorldFlags(t *testing.T) {
	values := map[string]string{
		"check": "", "cores": "=2", "force": "", "parallel": "=2", "replay": "=log", "pcap": "=a=b", "events": "=e", "flows": "=f", "trace": "=t",
		"record": "=r", "view": "", "pins": "=a,b", "datapath": "=kernel",
	}
	refused := map[string]string{ // by world
		scenario.WorldVirtual: "view pins datapath",
		scenario.WorldFlow:    "check cores replay pcap events flows record view pins datapath",
		scenario.WorldLive:    "check cores force parallel replay pcap flows",
		scenario.WorldMininet: "check cores force parallel replay pcap flows view pins datapath",
		scenario.WorldLab:     "check cores force parallel replay pcap flows view pins datapath",
	}
	for _, world := range scenario.WorldNames() {
		for name, value := range values {
			_, _, err := call(t, &fake{}, "run", "missing.yaml", "--world", world, "--"+name+value)
			is := strings.Contains(err, "--"+name+": the "+world+" world ")
			if want := strings.Contains(" "+refused[world]+" ", " "+name+" "); is != want {
				t.Errorf("--world %s --%s: refused %v, want %v: %s", world, name, is, want, err)
			}
		}
	}
}
