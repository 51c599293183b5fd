package targets

import (
	"fmt"
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Kind is a kind of switch. What it returns is the same at each call, and the caller's to change.
type Kind interface {
	// Name is what a targets file calls the kind, as in profile: stratum-tofino.
	Name() string
	// Program says which program the switch runs.
	Program() Program
	// Traits are its limits and abilities, before a targets file changes some.
	Traits() Traits
	// Pack makes the P4Runtime device config of what the compiler wrote.
	Pack(Compiled) ([]byte, error)
	// Translate returns what says the controller's tables in those of the switch's program, of which info is the P4Info.
	// Nil: the program has the controller's tables, by their names or by those of [Traits].Names.
	Translate(info *p4config.P4Info) (Translation, error)
}

// Program is what a switch runs.
type Program struct {
	Name string // its key under programs in a targets file: v1model, tna
	// Files says which files are to be named there; "": none need be, the controller has them.
	Files string
	// MoreRoom says what to do where its tables are too small for a fabric.
	MoreRoom string
}

// OwnProgram is the controller's own program for v1model.
func OwnProgram() Program {
	return Program{Name: "v1model", MoreRoom: "compile p4src/v1model with more room, name it under programs in the targets file, " +
		"or make the fabric smaller"}
}

// Place is where a switch is.
type Place struct {
	Fabric *fabric.Fabric
	Switch fabric.NodeID
	Ports  *PortMap // nil: the fabric's own numbers
}

// Words says entries of the controller's tables in P4Runtime, as its own program has them, and reads them back.
type Words interface {
	Decode(*p4.Entity) (controller.Entry, error)
	EncodeEntry(e controller.Entry, keyOnly bool) (*p4.Entity, error)
}

// Translation has switches whose program has other tables do what the controller's program would.
type Translation interface {
	// Room returns how many entries the program has room for in the tables of the controller, and how many shares a group
	// may have; 0 where it does not say.
	Room() (entries map[controller.Table]int64, group int32)
	// Client returns the client of one switch, over a client that speaks the switch's own dialect. Calls to it use our
	// names. It is made for each connection.
	Client(over p4.P4RuntimeClient, at Place, words Words) p4.P4RuntimeClient
}

// Names are what a program calls the controller's tables, actions, counters and packet headers, where it has other names.
type Names map[string]string

// Of returns the program's name.
func (n Names) Of(name string) string {
	if other, ok := n[name]; ok {
		return other
	}
	return name
}

// Kinds are kinds of switches to choose from.
type Kinds []Kind

// Default is the kind of a switch of which nothing is said.
const Default = "ethereal"

// Names returns the names of all.
func (ks Kinds) Names() []string {
	var names []string
	for _, k := range ks {
		names = append(names, k.Name())
	}
	return names
}

// ByName returns the profile of a kind; the empty name stands for [Default].
func (ks Kinds) ByName(name string) (*Profile, error) {
	if name == "" {
		name = Default
	}
	for _, k := range ks {
		if k.Name() == name {
			return NewProfile(k), nil
		}
	}
	return nil, fmt.Errorf("%w: profile: %q is none of %s", ErrProfile, name, strings.Join(ks.Names(), ", "))
}

// Programs returns the names of the programs that they run.
func (ks Kinds) Programs() []string {
	var names []string
	for _, k := range ks {
		if name := k.Program().Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
