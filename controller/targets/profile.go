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

// Traits are the limits and abilities of a kind of switch. Those with a key can be changed by a targets file. The zero
// Traits are those of `ethereal switch`.
type Traits struct {
	// Like is the kind that a targets file's own is like.
	Like string `yaml:"like" required:"name the kind that it is like, as in like: stratum-tofino"`

	BatchSize int `yaml:"batch_size"` // updates that one Write may carry; 0: as many as the controller likes
	// Lacks lists tables that v1model's program has and the target's has not,
	// since the chip does without.
	Lacks []controller.Table `yaml:"lacks"`
	Names Names              `yaml:"-"` // what its program calls things

	// CloneBytes is how much of a packet a clone session is to keep, 0 for all,
	// where the target takes a length at all.
	CloneBytes int `yaml:"clone_bytes"`
	// CloneSession is the number of the only clone session, of which the program
	// overrides the port; 0: a session for each port.
	CloneSession uint32 `yaml:"clone_session"`
	// CloneClass is the class of service of clones; 0 where the target takes none.
	CloneClass int `yaml:"clone_class"`
	// QueueUnit is the bytes that one step of the queue depth stands for, where the
	// operator does not say; 0: it is packets or a matter of configuration.
	QueueUnit int `yaml:"queue_unit"`

	// NotifyPorts is whether the controller notifies the data plane of its ports, by
	// packet-out: nothing on the switch does when one is back.
	NotifyPorts bool `yaml:"tell_ports"`

	// SourcePortsOnly is whether labels are found in UDP source ports alone.
	SourcePortsOnly bool `yaml:"source_ports_only"`
	// SegmentsOnly is whether labels are found in outer headers of micro segments alone.
	SegmentsOnly bool `yaml:"-"`
	// NoQuench is whether the switch neither sends a packet round a dead uplink nor notifies its source.
	NoQuench bool `yaml:"no_quench"`
	// NoticesOnly is whether packets that meet a dead port are not answered: its notices are all that notifies their
	// sources.
	NoticesOnly bool `yaml:"-"`

	// NoPackets is whether the controller cannot have it send packets by a port, nor is handed any.
	NoPackets bool `yaml:"-"`

	// NeedsPorts is whether the operator must map the ports: the numbers follow
	// from the board, not from the position.
	NeedsPorts bool `yaml:"needs_ports"`
	// NoGNMI is whether the switch has no gNMI server: `ethereal gnmi` runs beside it.
	// How much of gNMI one understands is found out by asking.
	NoGNMI bool `yaml:"no_gnmi"`
}

// Quenches reports whether the switch answers packets that meet a dead port.
func (t *Traits) Quenches() bool { return !t.NoQuench && !t.NoticesOnly }

// Notices reports whether the switch sends notices of a port that dies.
func (t *Traits) Notices() bool { return !t.NoQuench }

// RetriesUplinks reports whether the switch sends a packet that meets a dead uplink by another one without being
// notified first.
func (t *Traits) RetriesUplinks() bool { return !t.NoQuench }

// ReadsLabels reports whether the switch finds labels where the carriers put them, and if not, what would do.
func (t *Traits) ReadsLabels(v4, v6 controller.Carrier) (problem, remedy string, ok bool) {
	switch {
	case t.SourcePortsOnly && (v4 != controller.UDPSourcePort || v6 != controller.UDPSourcePort):
		return "finds labels in the UDP source port alone", fmt.Sprintf("set carrier_v4 and carrier_v6 to %v", controller.UDPSourcePort), false
	case t.SegmentsOnly && v6 != controller.MicroSegments:
		return "finds labels in outer headers alone", fmt.Sprintf("set carrier_v4 to %v and carrier_v6 to %v", controller.NoCarrier, controller.MicroSegments), false
	}
	return "", "", true
}

// LacksTable reports whether the target's program has no such table.
func (t *Traits) LacksTable(x controller.Table) bool { return slices.Contains(t.Lacks, x) }

// Profile is a kind of switch as one fabric has it.
type Profile struct {
	Name string // the kind's, or the targets file's own
	Kind
	Traits
}

// NewProfile returns the profile of a kind as it is.
func NewProfile(k Kind) *Profile { return &Profile{Name: k.Name(), Kind: k, Traits: k.Traits()} }

// Custom is what a targets file says of a kind of its own, which is like another but for the traits that are written.
type Custom struct {
	Like string
	said *yaml.Node // a mapping of traits
}

// UnmarshalStrict implements [strictyaml.Unmarshaler].
func (c *Custom) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	var t Traits
	d.Fields(n, &t, path)
	for key, v := range map[string]int{
		"batch_size": t.BatchSize, "clone_bytes": t.CloneBytes, "clone_class": t.CloneClass, "queue_unit": t.QueueUnit,
	} {
		if v < 0 {
			d.Complain(path+"."+key, fmt.Sprintf("%d is below 0", v), "leave it out, or write 0 for none")
		}
	}
	*c = Custom{t.Like, n}
}

// Profile returns the profile of that name: keys that were left out are as in the kind that it is like.
func (c Custom) Profile(name string, from Kinds) (*Profile, error) {
	p, err := from.ByName(c.Like)
	if err != nil {
		return nil, err
	}
	p.Name = name
	if c.said != nil {
		strictyaml.New("", nil).Fields(c.said, &p.Traits, "") // it was read before: nothing is wrong with it
	}
	return p, nil
}
