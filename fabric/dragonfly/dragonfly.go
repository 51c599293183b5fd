package dragonfly

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Arrangement says which global port of a group leads to which other group. Ports
// count through the group: port k is port k mod h of router k/h.
type Arrangement string

// Arrangements (Camarero, Vallejo and Beivide, ACM TACO 2014).
const (
	// Palmtree: port k of group i leads to group i-k-1. It looks the same from every group.
	Palmtree Arrangement = "palmtree"
	// Absolute: port k leads to group k, or k+1 from group k on. Kim et al. call it consecutive.
	Absolute Arrangement = "absolute"
)

// Arrangements returns the names of all arrangements.
func Arrangements() []string { return []string{string(Palmtree), string(Absolute)} }

// Spec asks for a fabric. The zero value of a count that can be derived, and of a
// link, means the default.
type Spec struct {
	HostsPerRouter  int         `yaml:"p" json:"p" required:"the hosts of a router; for example 2"`
	RoutersPerGroup int         `yaml:"a" json:"a" required:"the routers of a group; for example 4"`
	GlobalLinks     int         `yaml:"h" json:"h" required:"the global links of a router; for example 2"`
	Groups          int         `yaml:"groups" json:"groups"` // 0: a*h+1
	Arrangement     Arrangement `yaml:"arrangement" json:"arrangement"`

	HostLink   fabric.LinkSpec `yaml:"host_link" json:"host_link"`
	LocalLink  fabric.LinkSpec `yaml:"local_link" json:"local_link"`   // of two routers of a group
	GlobalLink fabric.LinkSpec `yaml:"global_link" json:"global_link"` // of two groups
}

// Limits: of a rank's number, and of the paths that a name can tell apart.
const (
	maxHosts = 1 << 16
	maxCount = 256
)

// ErrSpec is matched by every error of [Spec.Validate].
var ErrSpec = errors.New("dragonfly: bad fabric")

func (s Spec) withDefaults() Spec {
	if s.Groups == 0 {
		s.Groups = s.RoutersPerGroup*s.GlobalLinks + 1
	}
	if s.Arrangement == "" {
		s.Arrangement = Palmtree
	}
	for _, l := range []*fabric.LinkSpec{&s.HostLink, &s.LocalLink, &s.GlobalLink} {
		if *l == (fabric.LinkSpec{}) {
			*l = fabric.LinkSpec{Rate: fabric.DefaultRate, Delay: fabric.DefaultDelay}
		}
	}
	return s
}

// Validate reports the first thing wrong with s, with the key and the remedy.
func (s Spec) Validate() error {
	bad := func(key, format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s", ErrSpec, key, fmt.Sprintf(format, args...))
	}
	for _, c := range []struct {
		key   string
		value int
		least int
	}{{"p", s.HostsPerRouter, 1}, {"a", s.RoutersPerGroup, 1}, {"h", s.GlobalLinks, 1}} {
		if c.value < c.least || c.value > maxCount {
			return bad(c.key, "%d is outside %d to %d", c.value, c.least, maxCount)
		}
	}
	d := s.withDefaults()
	ports := d.RoutersPerGroup * d.GlobalLinks
	if d.Groups < 2 || d.Groups > ports+1 {
		return bad("groups", "%d is outside 2 to a*h+1, which is %d", d.Groups, ports+1)
	}
	if d.Arrangement != Palmtree && d.Arrangement != Absolute {
		return bad("arrangement", "%q is unknown; write %s", d.Arrangement, strings.Join(Arrangements(), " or "))
	}
	if n := d.Groups * d.RoutersPerGroup * d.HostsPerRouter; n > maxHosts {
		return bad("p", "there would be %d hosts; the most is %d", n, maxHosts)
	}
	layers := ports / (d.Groups - 1)
	if n := layers + (d.Groups+d.Groups*d.RoutersPerGroup)*layers*layers; n > 1<<fabric.LabelBits {
		return bad("groups", "%d make %d path names, and a label has %d bits; write more groups, or a smaller h", d.Groups, n,
			fabric.LabelBits)
	}
	for _, l := range []struct {
		key string
		fabric.LinkSpec
	}{{"host_link", d.HostLink}, {"local_link", d.LocalLink}, {"global_link", d.GlobalLink}} {
		if l.Rate <= 0 || l.Delay < 0 {
			return bad(l.key, "a rate of %v with a delay of %v is no link; write for example {rate: 400Gb/s, delay: 500ns}",
				l.Rate, l.Delay)
		}
	}
	return nil
}

// Link is a full-duplex link. Its ends are nodes: hosts first, by rank, then routers, group by group.
type Link struct {
	A, B int
	fabric.LinkSpec
	Global bool
}

// gate is a global link as its group sees it.
type gate struct {
	router  int32 // from which it leads
	channel int32 // away from the group
}

// Fabric is an immutable dragonfly.
type Fabric struct {
	spec          Spec
	hosts, layers int
	links         []Link
	gates         [][]gate // of a group's links to another: [from*groups+to][layer]
	out           [][]int32
}

// New builds the fabric s asks for, or returns what [Spec.Validate] reports.
func New(s Spec) (*Fabric, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s = s.withDefaults()
	f := &Fabric{spec: s, hosts: s.Groups * s.RoutersPerGroup * s.HostsPerRouter}
	for h := range f.hosts {
		f.links = append(f.links, Link{A: h, B: f.hosts + f.RouterOf(h), LinkSpec: s.HostLink})
	}
	a := s.RoutersPerGroup
	for g := range s.Groups {
		for i := range a {
			for j := i + 1; j < a; j++ {
				f.links = append(f.links, Link{A: f.hosts + g*a + i, B: f.hosts + g*a + j, LinkSpec: s.LocalLink})
			}
		}
	}
	f.connectGroups()
	f.out = make([][]int32, f.Routers())
	for l := f.hosts; l < len(f.links); l++ {
		x, y := f.links[l].A-f.hosts, f.links[l].B-f.hosts
		f.out[x] = append(f.out[x], int32(2*l))
		f.out[y] = append(f.out[y], int32(2*l+1))
	}
	return f, nil
}

// connectGroups adds the global links. Ports are used in layers of one link to each
// other group, of which there is one if the fabric is canonical.
func (f *Fabric) connectGroups() {
	s := f.spec
	n := s.Groups
	f.layers = s.RoutersPerGroup * s.GlobalLinks / (n - 1)
	f.gates = make([][]gate, n*n)
	for layer := range f.layers {
		for from := range n {
			for to := from + 1; to < n; to++ {
				x, y := f.gateway(from, to, layer), f.gateway(to, from, layer)
				l := len(f.links)
				f.links = append(f.links, Link{A: f.hosts + x, B: f.hosts + y, LinkSpec: s.GlobalLink, Global: true})
				f.gates[from*n+to] = append(f.gates[from*n+to], gate{int32(x), int32(2 * l)})
				f.gates[to*n+from] = append(f.gates[to*n+from], gate{int32(y), int32(2*l + 1)})
			}
		}
	}
}

// gateway returns the router of a group that has its link of a layer to another.
func (f *Fabric) gateway(from, to, layer int) int {
	s := f.spec
	port := to
	switch {
	case s.Arrangement == Palmtree:
		port = (from - to - 1 + s.Groups) % s.Groups
	case to > from:
		port--
	}
	return from*s.RoutersPerGroup + (layer*(s.Groups-1)+port)/s.GlobalLinks
}

// Spec returns what the fabric was built from, defaults filled in.
func (f *Fabric) Spec() Spec { return f.spec }

// Hosts returns the number of hosts. A host's node is its rank.
func (f *Fabric) Hosts() int { return f.hosts }

// Groups returns the number of groups.
func (f *Fabric) Groups() int { return f.spec.Groups }

// Routers returns the number of routers. The node of router r is Hosts()+r, its group r/a.
func (f *Fabric) Routers() int { return f.spec.Groups * f.spec.RoutersPerGroup }

// RouterOf returns the router of a host.
func (f *Fabric) RouterOf(host int) int { return host / f.spec.HostsPerRouter }

// GroupOf returns the group of a router.
func (f *Fabric) GroupOf(router int) int { return router / f.spec.RoutersPerGroup }

// Layers returns how many links every two groups have.
func (f *Fabric) Layers() int { return f.layers }

// Links returns the number of links.
func (f *Fabric) Links() int { return len(f.links) }

// Link returns a link.
func (f *Fabric) Link(l int) Link { return f.links[l] }

// Channels returns the channels that lead from a router to others. The caller must not write to it.
func (f *Fabric) Channels(router int) []int32 { return f.out[router] }

// Ends returns the nodes that a channel leads from and to.
func (f *Fabric) Ends(channel int32) (from, to int) {
	l := f.links[channel/2]
	if channel%2 == 0 {
		return l.A, l.B
	}
	return l.B, l.A
}

// NodeName returns a node's name: h3, or g1r2 for the third router of the second group.
func (f *Fabric) NodeName(node int) string {
	if node < f.hosts {
		return "h" + strconv.Itoa(node)
	}
	r := node - f.hosts
	return fmt.Sprintf("g%dr%d", f.GroupOf(r), r%f.spec.RoutersPerGroup)
}

// LinkName returns a link's name, as in "g0r1-g3r0".
func (f *Fabric) LinkName(l int) string {
	return f.NodeName(f.links[l].A) + "-" + f.NodeName(f.links[l].B)
}

// LinkByName returns the link between two nodes, or, for two groups as in "g0-g1", their first global link.
func (f *Fabric) LinkByName(name string) (int, error) {
	x, y, _ := strings.Cut(name, "-")
	var from, to int
	if _, err := fmt.Sscanf(name, "g%d-g%d", &from, &to); err == nil && name == fmt.Sprintf("g%d-g%d", from, to) {
		if from < 0 || to < 0 || from >= f.Groups() || to >= f.Groups() || from == to {
			return 0, fmt.Errorf("dragonfly: no link %q; groups are g0 to g%d", name, f.Groups()-1)
		}
		return int(f.gates[from*f.Groups()+to][0].channel / 2), nil
	}
	for l := range f.links {
		if a, b := f.NodeName(f.links[l].A), f.NodeName(f.links[l].B); a == x && b == y || a == y && b == x {
			return l, nil
		}
	}
	return 0, fmt.Errorf("dragonfly: no link %q; write two groups, as in g0-g1, or two nodes, as in %s", name,
		f.LinkName(len(f.links)-1))
}
