package targets

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
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
)

func (p Program) String() string { return [...]string{"v1model", "tna", "t2na"}[p] }

// Profile is a kind of switch.
type Profile struct {
	Name    string
	Program Program
	// Pack makes the P4Runtime device config of what the compiler wrote.
	Pack func(Compiled) ([]byte, error)

	BatchSize int // updates that one Write may carry; 0: as many as the controller likes
	// Lacks lists tables that v1model's program has and the target's has not,
	// since the chip does without.
	Lacks []controller.Table

	// CloneBytes is how much of a packet a clone session is to keep, 0 for all,
	// where the target takes a length at all.
	CloneBytes int
	// CloneSession is the number of the only clone session, of which the program
	// overrides the port; 0: a session for each port.
	CloneSession uint32
	// CloneClass is the class of service of clones; 0 where the target takes none.
	CloneClass int
	// QueueUnit is the bytes that one step of the queue depth stands for, where the
	// operator does not say; 0: it is packets or a matter of configuration.
	QueueUnit int

	// TellPorts is whether the controller tells the data plane of its ports, by
	// packet-out: nothing on the switch does when one is back.
	TellPorts bool

	// NeedsPorts is whether the operator must map the ports: the numbers follow
	// from the board, not from the position.
	NeedsPorts bool
	// NoGNMI is whether the switch has no gNMI server: `ethereal gnmi` runs beside it.
	// How much of gNMI one understands is found out by asking.
	NoGNMI bool
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
	// The chips' program makes no notices yet.
	chipLacks := []controller.Table{controller.PortOfUplink, controller.MulticastGroup, controller.Notice}
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
