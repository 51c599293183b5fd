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

// Kind is a kind of switch. Its methods return the same values at each call; the caller may change them.
type Kind interface {
	// Name is the kind's name in a targets file, as in profile: stratum-tofino.
	Name() string
	// Program returns the P4 program that the switch runs.
	Program() Program
	// Traits are its limits and abilities, before a targets file changes them.
	Traits() Traits
	// Pack makes the P4Runtime device config from the compiler's output.
	Pack(Compiled) ([]byte, error)
	// Translate returns the translation of the controller's tables to those of the switch's program, whose P4Info
	// is info. Nil: the program has the controller's tables, by their names or by those of [Traits].Names.
	Translate(info *p4config.P4Info) (Translation, error)
}

// Program is the P4 program of a kind of switch: its name, and what its compiler's files are called.
type Program struct {
	Name string // its key under programs in a targets file: v1model, tna
	// Files names the files to be given there; "": none, the controller has them.
	Files string
	// MoreRoom is the remedy if its tables are too small for a fabric.
	MoreRoom string
}

// OwnProgram returns the controller's own program for v1model.
func OwnProgram() Program {
	return Program{Name: "v1model", MoreRoom: "compile p4src/v1model with more room, name it under programs in the targets file, " +
		"or make the fabric smaller"}
}

// SwitchPlace is a switch's position in the fabric, and its port numbers, for a client that talks to it.
type SwitchPlace struct {
	Fabric *fabric.Fabric
	Switch fabric.NodeID
	Ports  *PortMap // nil: the fabric's own numbers
}

// EntryCodec encodes entries of the controller's tables as P4Runtime messages of its own program, and decodes them.
type EntryCodec interface {
	Decode(*p4.Entity) (controller.Entry, error)
	EncodeEntry(e controller.Entry, keyOnly bool) (*p4.Entity, error)
}

// Translation converts between the controller's tables and those of another P4 program.
type Translation interface {
	// Room returns the number of entries for which the program has room in the controller's tables, and the largest
	// number of shares in a group; 0: not stated.
	Room() (entries map[controller.Table]int64, group int32)
	// Client returns a P4Runtime client of one switch in terms of the controller's tables, on top of a client in terms
	// of the switch's program. One is made per connection.
	Client(over p4.P4RuntimeClient, at SwitchPlace, words EntryCodec) p4.P4RuntimeClient
}

// Names maps the controller's tables, actions, counters and packet headers to a program's names, where these
// differ.
type Names map[string]string

// Of returns the program's name for one of the controller's names.
func (n Names) Of(name string) string {
	if other, ok := n[name]; ok {
		return other
	}
	return name
}

// Kinds are kinds of switches to choose from.
type Kinds []Kind

// Default is the kind of a switch for which the targets file names no profile.
const Default = "ethereal"

// Names returns the kinds' names.
func (ks Kinds) Names() []string {
	var names []string
	for _, k := range ks {
		names = append(names, k.Name())
	}
	return names
}

// ByName returns the profile of a kind; the empty name means [Default].
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

// Programs returns the names of the P4 programs that switches of these kinds run, each once.
func (ks Kinds) Programs() []string {
	var names []string
	for _, k := range ks {
		if name := k.Program().Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
