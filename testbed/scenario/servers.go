package scenario

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Servers groups hosts, one GPU each, into servers with internal links. The zero value means servers with one GPU.
type Servers struct {
	GPUs int `yaml:"gpus"` // number of GPUs per server
	// Wiring selects the ToR of a GPU.
	Wiring Wiring `yaml:"wiring"`
	// CrossRail selects how GPUs on different rails reach each other.
	CrossRail CrossRail `yaml:"cross_rail"`
	// Internal is the link from each GPU to the others of its server.
	Internal fabric.LinkSpec `yaml:"internal"`
}

// Wiring selects the ToR of a GPU.
type Wiring string

// Wirings.
const (
	Rack Wiring = "rack" // all GPUs of a server under one; "" is the same
	Rail Wiring = "rail" // GPU i under rail switch i
)

// CrossRail selects the path of traffic from one rail to another.
type CrossRail string

// Ways from one rail to another.
const (
	BySpine  CrossRail = "spine"    // through the fabric's higher tiers; "" is the same
	ByServer CrossRail = "internal" // over the server's links to its GPU on the other rail, then on that rail
)

// Defaults of a server's internal links: NVLink's of the fourth generation, one
// way, through a switch.
const (
	internalRate  = 3600 * fabric.Gbps
	internalDelay = 300 * fabric.Nanosecond
)

// Grouped reports whether hosts are grouped into servers with several GPUs.
func (s Servers) Grouped() bool { return s.GPUs > 1 }

// Link returns a GPU's internal link.
func (s Servers) Link() fabric.LinkSpec {
	if s.Internal == (fabric.LinkSpec{}) {
		return fabric.LinkSpec{Rate: internalRate, Delay: internalDelay}
	}
	return s.Internal
}

// Server returns a rank's server, and its GPU number there.
func (s Servers) Server(rank int) (server, gpu int) {
	n := max(1, s.GPUs)
	return rank / n, rank % n
}

// Host returns the host of a rank; servers have consecutive ranks. With rails, groups of as many servers as a rail
// switch has ports share a set of switches.
func (s Servers) Host(f *fabric.Fabric, rank int) fabric.NodeID {
	if s.Wiring != Rail {
		return fabric.NodeID(rank)
	}
	server, gpu := s.Server(rank)
	perRail := f.Spec().HostsPerToR
	group, place := server/perRail, server%perRail
	return fabric.NodeID((group*s.GPUs+gpu)*perRail + place)
}

// Relay returns the rank whose NIC sends a message: the sender itself, or the GPU of its server on the receiver's rail.
func (s Servers) Relay(src, dst int) int {
	if !s.Grouped() || s.Wiring != Rail || s.CrossRail != ByServer {
		return src
	}
	server, _ := s.Server(src)
	_, gpu := s.Server(dst)
	return server*s.GPUs + gpu
}

func (s Servers) check(f *fabric.Fabric, bad reportError) {
	if s.GPUs < 0 || s.GPUs > 64 {
		bad("servers.gpus", fmt.Sprintf("%d is outside 1 to 64", s.GPUs), "write for example 8")
		return
	}
	for _, c := range []struct {
		key, value string
		known      []string
	}{
		{"servers.wiring", string(s.Wiring), []string{string(Rack), string(Rail)}},
		{"servers.cross_rail", string(s.CrossRail), []string{string(BySpine), string(ByServer)}},
	} {
		if c.value != "" && !slices.Contains(c.known, c.value) {
			bad(c.key, fmt.Sprintf("%q is unknown", c.value), strictyaml.Choose(c.value, c.known))
			return
		}
	}
	l := s.Link()
	switch {
	case !s.Grouped() && s != (Servers{GPUs: s.GPUs}):
		bad("servers.gpus", "is missing", "write for example 8")
	case s.CrossRail == ByServer && s.Wiring != Rail:
		bad("servers.cross_rail", "needs rails", "add wiring: rail")
	case l.Rate <= 0 || l.Rate > maxHostRate*8 || l.Delay < 0 || l.Delay > fabric.Second:
		bad("servers.internal", fmt.Sprintf("%v, %v is no link", l.Rate, l.Delay), "write for example {rate: 3.6Tb/s, delay: 300ns}")
	case f == nil || !s.Grouped():
	case s.Wiring == Rail && f.ToRs()%s.GPUs != 0:
		bad("servers.wiring", fmt.Sprintf("%d ToRs are no multiple of the %d rails", f.ToRs(), s.GPUs), "make the number of ToRs one")
	case s.Wiring != Rail && f.Spec().HostsPerToR%s.GPUs != 0:
		bad("servers.gpus", fmt.Sprintf("%d hosts under a ToR are no whole servers of %d", f.Spec().HostsPerToR, s.GPUs), "change one of them")
	}
}
