package controller

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func TestConfigErrors(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string // of the error; empty: none
	}{
		{"as it is", func(*Config) {}, ""},
		{"no marking", func(c *Config) { c.ECN = ECN{} }, ""},
		{"no fabric", func(c *Config) { c.Fabric = nil }, "Fabric: missing"},
		{"flow label in IPv4", func(c *Config) { c.CarrierV4 = FlowLabel }, "CarrierV4: IPv4 packets have no flow label"},
		{"unknown carrier", func(c *Config) { c.CarrierV6 = 9 }, "CarrierV6"},
		{"priority", func(c *Config) { c.ControlPriority = 8 }, "ControlPriority: 8 is outside 0 to 7"},
		{"small groups", func(c *Config) { c.MaxGroupSize = 1 }, "MaxGroupSize: 1 is outside 2"},
		{"kmax below kmin", func(c *Config) { c.ECN.Kmin = c.ECN.Kmax + 1 }, "ECN.Kmax"},
		{"no unit", func(c *Config) { c.ECN.Unit = 0 }, "ECN.Unit"},
		{"small unit", func(c *Config) { c.ECN.Unit = 1 }, "use a larger Unit"},
		{"probability", func(c *Config) { c.ECN.Pmax = 1.5 }, "ECN.Pmax"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := testConfig(f)
			tc.change(&cfg)
			_, err := New(cfg)
			if tc.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an ErrConfig with %q", err, tc.want)
			}
		})
	}
}

func TestCarrierText(t *testing.T) {
	for c := NoCarrier; c <= FlowLabel; c++ {
		text, err := c.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Carrier
		if err := back.UnmarshalText(text); err != nil || back != c {
			t.Errorf("%v reads back as %v, %v", c, back, err)
		}
	}
	var c Carrier
	if err := c.UnmarshalText([]byte("mpls")); err == nil {
		t.Error("mpls is no carrier")
	}
}

// TestPortStateFromOutside names nodes and ports that do not exist.
func TestPortStateFromOutside(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	c := mustCore(t, testConfig(f))
	for _, e := range []fabric.End{{Node: -1, Port: 1}, {Node: fabric.NodeID(f.Nodes()), Port: 1}, {Node: 0, Port: 0}, {Node: 0, Port: 2}, {Node: 20, Port: 500}} {
		if err := c.PortState(0, e.Node, e.Port, false); !errors.Is(err, ErrUnknownPort) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if r := c.Ready(); len(r.Writes) != 0 || len(r.Notices) != 0 || c.Epoch() != 0 {
		t.Errorf("they changed something: %+v", r)
	}
	if c.Desired(-1) != nil || c.Desired(0) != nil || c.Desired(fabric.NodeID(f.Nodes())) != nil {
		t.Error("tables for what is no switch")
	}
}

// TestRestart sees that a core that learns the link states anew, in another
// order, asks for the tables its predecessor left.
func TestRestart(t *testing.T) {
	f := mustFabric(t, fabric.Spec{Kind: fabric.KindFatTree, K: 6})
	links := upLinks(f)
	one, two := mustCore(t, testConfig(f)), mustCore(t, testConfig(f))
	for i, id := range links {
		setLink(t, one, id, i%3 == 0) // most go down,
		one.Ready()
	}
	for i, id := range links {
		setLink(t, one, id, i%7 != 0) // and most of them come back
		one.Ready()
	}
	for _, link := range slices.Backward(links) {
		setLink(t, two, link, one.LinkUp(link))
	}
	two.Ready()
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		if us := Diff(one.Desired(id), two.Desired(id)); len(us) > 0 {
			t.Errorf("%s: %v", f.Name(id), us)
		}
	}
}
