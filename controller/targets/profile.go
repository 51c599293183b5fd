package targets

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// ErrProfile is wrapped by the errors of this package.
var ErrProfile = errors.New("targets")

// Traits is the limits and abilities of a kind of switch. A targets file can change those that have a key. The zero
// value is `ethereal switch`.
type Traits struct {
	// Like is the kind on which a targets file's own kind is based.
	Like string `yaml:"like" required:"name the kind that it is like, as in like: stratum-tofino"`

	BatchSize int `yaml:"batch_size"` // largest number of updates in one Write; 0: no limit
	// Lacks lists tables of v1model's program that the target's does not have, since the chip does not need them.
	Lacks []controller.Table `yaml:"lacks"`
	Names Names              `yaml:"-"` // names in its P4 program that differ from the controller's

	// CloneBytes is the number of bytes that a clone session keeps of a packet, 0 for all, where the target accepts
	// a length.
	CloneBytes int `yaml:"clone_bytes"`
	// CloneSession is the number of the only clone session, whose port the program overrides; 0: one session per
	// port.
	CloneSession uint32 `yaml:"clone_session"`
	// CloneClass is the class of service of clones; 0 where the target accepts none.
	CloneClass int `yaml:"clone_class"`
	// QueueUnit is the number of bytes per step of the queue depth, if the operator does not set it; 0: the steps
	// are packets or configured.
	QueueUnit int `yaml:"queue_unit"`

	// NotifyPorts makes the controller notify the data plane, by packet-out, that a port is up again: nothing on the
	// switch does.
	NotifyPorts bool `yaml:"tell_ports"`

	// SourcePortsOnly means that the switch finds labels in UDP source ports alone.
	SourcePortsOnly bool `yaml:"source_ports_only"`
	// NoQuench means that the switch neither reroutes a packet around a dead uplink nor notifies its source.
	NoQuench bool `yaml:"no_quench"`

	// NoPackets means that the controller cannot make the switch send packets, and receives none from it.
	NoPackets bool `yaml:"-"`

	// NeedsPorts means that the operator must map the ports: the numbers follow from the board, not from the
	// position.
	NeedsPorts bool `yaml:"needs_ports"`
	// NoGNMI means that the switch has no gNMI server: `ethereal gnmi` runs beside it. How much of gNMI a switch
	// supports is found by asking it.
	NoGNMI bool `yaml:"no_gnmi"`
}

// Notices reports whether the switch sends notices about a port that dies.
func (t *Traits) Notices() bool { return !t.NoQuench }

// RetriesUplinks reports whether the switch itself reroutes a packet from a dead uplink to another one.
func (t *Traits) RetriesUplinks() bool { return !t.NoQuench }

// ReadsLabels reports whether the switch finds labels in the carriers; if not, it returns the problem and the
// remedy.
func (t *Traits) ReadsLabels(v4, v6 controller.Carrier) (problem, remedy string, ok bool) {
	if t.SourcePortsOnly && (v4 != controller.UDPSourcePort || v6 != controller.UDPSourcePort) {
		return "finds labels in the UDP source port alone", fmt.Sprintf("set carrier_v4 and carrier_v6 to %v", controller.UDPSourcePort), false
	}
	return "", "", true
}

// LacksTable reports whether the target's program does not have the table.
func (t *Traits) LacksTable(x controller.Table) bool { return slices.Contains(t.Lacks, x) }

// Profile is a kind of switch, with the traits that the targets file of one fabric sets.
type Profile struct {
	Name string // the kind's, or of the targets file's own kind
	Kind
	Traits
}

// NewProfile returns the unchanged profile of a kind.
func NewProfile(k Kind) *Profile { return &Profile{Name: k.Name(), Kind: k, Traits: k.Traits()} }

// CustomProfile is a kind of switch that a targets file defines: another kind, with changed traits.
type CustomProfile struct {
	Like   string
	traits *yaml.Node // a mapping of traits
}

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler].
func (c *CustomProfile) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	var t Traits
	d.Fields(n, &t, path)
	for key, v := range map[string]int{
		"batch_size": t.BatchSize, "clone_bytes": t.CloneBytes, "clone_class": t.CloneClass, "queue_unit": t.QueueUnit,
	} {
		if v < 0 {
			d.Complain(path+"."+key, fmt.Sprintf("%d is below 0", v), "leave it out, or write 0 for none")
		}
	}
	*c = CustomProfile{t.Like, n}
}

// Profile returns the profile with a name: omitted keys are as in the kind on which it is based.
func (c CustomProfile) Profile(name string, from Kinds) (*Profile, error) {
	p, err := from.ByName(c.Like)
	if err != nil {
		return nil, err
	}
	p.Name = name
	if c.traits != nil {
		strictyaml.New("", nil).Fields(c.traits, &p.Traits, "") // it was read without errors before
	}
	return p, nil
}
