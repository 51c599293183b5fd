package port_test

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// A veth says 10 Gb/s, which is no speed, and that it does not negotiate.
func TestLinkSettings(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	l, err := port.OpenLinks()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // the test is over
	links, err := l.List()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, x := range links {
		if x.Name != "a" && x.Name != "b" {
			continue
		}
		if seen++; x.Hardware || x.Mbps != 0 || x.Autoneg == nil || *x.Autoneg {
			t.Errorf("%+v: want a virtual interface without speed and negotiation", x)
		}
	}
	if seen != 2 {
		t.Errorf("%d ends of the veth pair are listed", seen)
	}
}
