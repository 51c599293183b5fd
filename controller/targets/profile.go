package targets

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// ErrProfile is wrapped by the errors of this package.
var ErrProfile = errors.New("targets")

// Program is the architecture that a target's program is written for.
type Program uint8

// The programs.
const (
	V1Model Program = iota // v1model/ethereal.p4
	TNA                    // tna/ethereal.p4 for Tofino 1
	T2NA                   // tna/ethereal.p4 for Tofino 2
	SAI                    // sai_p4 of sonic-pins, in place of ours; see package pins
)

func (p Program) String() string { return [...]string{"v1model", "tna", "t2na", "sai"}[p] }

// Profile is a kind of switch. In YAML it is like another, but for the keys it has; see [Profile.UnmarshalStrict].
type Profile struct {
	Name    string  `yaml:"-"`
	Like    string  `yaml:"like" required:"name the kind that it is like, as in like: stratum-tofino"`
	Program Program `yaml:"-"`
	// Pack makes the P4Runtime device config of what the compiler wrote.
	Pack func(Compiled) ([]byte, error) `yaml:"-"`

	BatchSize int `yaml:"batch_size"` // updates that one Write may carry; 0: as many as the controller likes
	// Lacks lists tables that v1model's program has and the target's has not,
	// since the chip does without.
	Lacks []controller.Table `yaml:"lacks"`

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

	// TellPorts is whether the controller tells the data plane of its ports, by
	// packet-out: nothing on the switch does when one is back.
	TellPorts bool `yaml:"tell_ports"`

	// SourcePortsOnly is whether labels are found in UDP source ports alone.
	SourcePortsOnly bool `yaml:"source_ports_only"`
	// NoQuench is whether the switch neither sends a packet round a dead uplink nor tells its source.
	NoQuench bool `yaml:"no_quench"`

	// NeedsPorts is whether the operator must map the ports: the numbers follow
	// from the board, not from the position.
	NeedsPorts bool `yaml:"needs_ports"`
	// NoGNMI is whether the switch has no gNMI server: `ethereal gnmi` runs beside it.
	// How much of gNMI one understands is found out by asking.
	NoGNMI bool `yaml:"no_gnmi"`
}

// UnmarshalStrict implements [strictyaml.Unmarshaler]: keys that are left out are as in the profile that the new one is
// like, the program and its packing among them. Only names of this package are known to it.
func (p *Profile) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "like" {
			continue
		}
		base, err := ByName(n.Content[i+1].Value)
		if err != nil {
			d.ComplainAt(n.Content[i+1], path+".like", fmt.Sprintf("%q is unknown", n.Content[i+1].Value),
				strictyaml.Choose(n.Content[i+1].Value, Names()))
			return
		}
		*p = *base
	}
	d.Fields(n, p, path)
	for key, v := range map[string]int{
		"batch_size": p.BatchSize, "clone_bytes": p.CloneBytes, "clone_class": p.CloneClass, "queue_unit": p.QueueUnit,
	} {
		if v < 0 {
			d.Complain(path+"."+key, fmt.Sprintf("%d is below 0", v), "leave it out, or write 0 for none")
		}
	}
}

// The cells of the packet buffer, in bytes.
const (
	tofino1Cell = 80
	tofino2Cell = 176
)

// quenchClone is what of a packet a chip's mirror is to keep: Ethernet, VLAN,
// IPv6, UDP, BTH and the mirror's own header.
const quenchClone = 14 + 4 + 40 + 8 + 12 + 14

// t2naSession is the mirror session of quenches on Tofino 2, whose numbers have 8
// bits: see mirror_quench in tna/ingress.p4.
const t2naSession = 1

// profiles are made anew for every caller: nothing here is shared.
func profiles() []Profile {
	chipLacks := []controller.Table{controller.PortOfUplink}
	saiLacks := slices.DeleteFunc(controller.Tables(), func(t controller.Table) bool {
		return slices.Contains([]controller.Table{controller.LabelCarrier, controller.ECMP, controller.RouteV4, controller.RouteV6,
			controller.SourceRoute}, t)
	})
	return []Profile{
		{
			// PI refuses clone sessions with a class or a length.
			Name: "bmv2", Program: V1Model, Pack: packJSON,
			NoGNMI: true,
		},
		{
			Name: "ethereal", Program: V1Model, Pack: packJSON,
		},
		{
			Name: "stratum-bmv2", Program: V1Model, Pack: packJSON, NeedsPorts: true,
		},
		{
			Name: "stratum-tofino", Program: TNA, Pack: packStratum, BatchSize: 256, Lacks: chipLacks,
			CloneBytes: quenchClone, QueueUnit: tofino1Cell, NeedsPorts: true, TellPorts: true,
		},
		{
			Name: "stratum-tofino2", Program: T2NA, Pack: packStratum, BatchSize: 256, Lacks: chipLacks,
			CloneBytes: quenchClone, CloneSession: t2naSession, QueueUnit: tofino2Cell, NeedsPorts: true, TellPorts: true,
		},
		{
			// The P4Runtime server of the chip's own SDE: PI's packing, and no gNMI.
			Name: "tofino-sde", Program: TNA, Pack: packPI, BatchSize: 256, Lacks: chipLacks,
			CloneBytes: quenchClone, QueueUnit: tofino1Cell, NeedsPorts: true, TellPorts: true,
			NoGNMI: true,
		},
		{
			Name: "pins", Program: SAI, Pack: packSAI, Lacks: saiLacks, NeedsPorts: true, SourcePortsOnly: true, NoQuench: true,
		},
	}
}

// Default is the profile of a switch of which nothing is said.
const Default = "ethereal"

// Names returns the names of all profiles.
func Names() []string {
	var names []string
	for _, p := range profiles() {
		names = append(names, p.Name)
	}
	return names
}

// ByName returns a profile; the empty name stands for [Default].
func ByName(name string) (*Profile, error) {
	if name == "" {
		name = Default
	}
	for _, p := range profiles() {
		if p.Name == name {
			return &p, nil
		}
	}
	return nil, fmt.Errorf("%w: profile: %q is none of %s", ErrProfile, name, strings.Join(Names(), ", "))
}

// LacksTable reports whether the target's program has no such table.
func (p *Profile) LacksTable(t controller.Table) bool { return slices.Contains(p.Lacks, t) }
