package targets

import (
	"errors"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

func TestPortMap(t *testing.T) {
	m, err := NewPortMap([]Port{{Name: "1/0", ID: 128, Lanes: 4}, {Name: "2/0", ID: 136, Lanes: 4}})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[fabric.PortNo]Port{1: {Name: "1/0", ID: 128}, 2: {Name: "2/0", ID: 136}} {
		id, ok := m.ID(p)
		back, ok2 := m.Port(id)
		named, ok3 := m.ByName(m.Name(p))
		if id != want.ID || m.Name(p) != want.Name || back != p || named != p || !ok || !ok2 || !ok3 {
			t.Errorf("port %d: id %d, name %q, back %d and %d", p, id, m.Name(p), back, named)
		}
	}
	if _, ok := m.ID(3); ok || m.Name(0) != "" {
		t.Error("ports that are not mapped have a number or a name")
	}
	var identity *PortMap
	if id, ok := identity.ID(7); id != 7 || !ok || identity.Name(7) != "Ethernet7" {
		t.Errorf("identity: %d, %v, %q", id, ok, identity.Name(7))
	}
	for _, tt := range []struct {
		ports []Port
		want  string
	}{
		{[]Port{{ID: 1}}, "port 1: name: missing"},
		{[]Port{{Name: "a", ID: 508}}, "id: 508 is above 507"},
		{[]Port{{Name: "a", ID: 1}, {Name: "b", ID: 1}}, "port 2: id: 1 is port 1's"},
		{[]Port{{Name: "a", ID: 1}, {Name: "a", ID: 2}}, "port 2: name: a is port 1's"},
		{[]Port{{Name: "a", ID: 1, Lanes: 9}}, "lanes: 9"},
	} {
		if _, err := NewPortMap(tt.ports); !errors.Is(err, ErrProfile) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.ports, err, tt.want)
		}
	}
}
