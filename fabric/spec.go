package fabric

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Kinds of fabrics.
const (
	KindFatTree   = "fat-tree"   // three tiers, from K alone or from explicit counts
	KindLeafSpine = "leaf-spine" // two tiers: ToRs (leaves) and spines
	KindDragonfly = "dragonfly"  // groups of ToRs, from ToRsPerPod, GlobalLinks and HostsPerToR
)

// LinkSpec is the rate and propagation delay of the links of one tier. The zero value means the defaults. In any
// other value both fields count: a Delay of zero with a Rate is a link without delay, a Rate of zero with a Delay
// is an error.
type LinkSpec struct {
	Rate  Rate `yaml:"rate" json:"rate"`
	Delay Time `yaml:"delay" json:"delay"` // one-way propagation delay
}

// Spec describes a fabric. The zero value of a count means "derive it": a fat-tree with only K set is the k-ary
// fat-tree of Al-Fares et al. The zero value of a [LinkSpec] means [DefaultRate] and [DefaultDelay]. The result of
// [Fabric.Spec] gives the same fabric again.
type Spec struct {
	Kind string `yaml:"kind" json:"kind"`
	K    int    `yaml:"k,omitempty" json:"k,omitempty"` // fat-tree switch radix, even

	Pods        int `yaml:"pods,omitempty" json:"pods,omitempty"`
	ToRsPerPod  int `yaml:"tors_per_pod,omitempty" json:"tors_per_pod,omitempty"`
	AggsPerPod  int `yaml:"aggs_per_pod,omitempty" json:"aggs_per_pod,omitempty"`
	Cores       int `yaml:"cores,omitempty" json:"cores,omitempty"` // cores per plane, a multiple of AggsPerPod
	ToRs        int `yaml:"tors,omitempty" json:"tors,omitempty"`   // number of ToRs of a leaf-spine, per plane
	Spines      int `yaml:"spines,omitempty" json:"spines,omitempty"`
	HostsPerToR int `yaml:"hosts_per_tor,omitempty" json:"hosts_per_tor,omitempty"`
	// dragonfly: number of links of each ToR to other pods
	GlobalLinks int `yaml:"global_links,omitempty" json:"global_links,omitempty"`

	// Planes is the number of planes: copies of the fabric with the same hosts, which have one port into each. 0
	// means one. With several planes at flow level, which has no addresses and no switches, only the labels limit
	// the size; elsewhere the limits of one plane hold for each: see [Fabric.Plane].
	Planes int `yaml:"planes,omitempty" json:"planes,omitempty"`

	HostLink  LinkSpec `yaml:"host_link,omitempty" json:"host_link"`   // host to ToR, in each plane
	ToRUplink LinkSpec `yaml:"tor_uplink,omitempty" json:"tor_uplink"` // ToR to aggregation or spine; dragonfly: within a pod
	AggUplink LinkSpec `yaml:"agg_uplink,omitempty" json:"agg_uplink"` // aggregation to core; dragonfly: between pods
}

// Defaults of a link, from the reference evaluation.
const (
	DefaultRate = 400 * Gbps
	// MaxRate and MaxDelay are the largest of a link. The rates of all links of a fabric can be added in 64 bits.
	MaxRate      = 1000 * Tbps
	MaxDelay     = 1000 * Second
	DefaultDelay = 500 * Nanosecond
)

// Limits that follow from the addresses of nodes and the numbers of ports.
const (
	MaxPods        = 256 // limit because the second byte of a host's address 10.pod.tor.host is the pod
	MaxToRsPerPod  = 256 // limit because the third byte of a host's address 10.pod.tor.host is the ToR
	MaxHostsPerToR = 250 // limit because the last byte of a host's address 10.pod.tor.host numbers the hosts
	MaxPorts       = 500 // v1model port numbers are 9 bits; the topmost are reserved
	MaxUplinks     = 64  // per switch: its program keeps the uplinks' states in a bitmap
)

// Limits of a fabric of planes.
const (
	MaxPlanes = 64
	// MaxPlaneCount is the limit of each count (pods, ToRs per pod, uplinks, hosts per ToR) of a fabric with planes.
	MaxPlaneCount = 4096
	MaxPlaneHosts = 1 << 18 // hosts of a fabric with planes: the number of ranks that a message's ID can name
	MaxPlaneLinks = 1 << 24
)

// ErrSpec matches every error of [Spec.Validate].
var ErrSpec = errors.New("fabric: bad fabric")

// SpecError is an error in a [Spec].
type SpecError struct {
	Key     string // YAML key, such as "tor_uplink.rate"
	Problem string // what is wrong
	Remedy  string // what would be right; empty if the problem implies it
}

// Error returns "fabric: bad fabric: key: what is wrong; what would be right".
func (e *SpecError) Error() string {
	text := fmt.Sprintf("%v: %s: %s", ErrSpec, e.Key, e.Problem)
	if e.Remedy != "" {
		text += "; " + e.Remedy
	}
	return text
}

// Is reports whether target is [ErrSpec].
func (e *SpecError) Is(target error) bool { return target == ErrSpec }

// withDefaults returns s with derived counts and link defaults filled in.
func (s Spec) withDefaults() Spec {
	if s.Kind == KindFatTree && s.K > 0 {
		half := s.K / 2
		setZero(&s.Pods, s.K)
		setZero(&s.ToRsPerPod, half)
		setZero(&s.AggsPerPod, half)
		setZero(&s.Cores, half*half)
		setZero(&s.HostsPerToR, half)
	}
	if s.Kind == KindLeafSpine {
		s.Pods, s.ToRsPerPod, s.AggsPerPod, s.Cores = 1, s.ToRs, 0, s.Spines
	}
	if s.Kind == KindDragonfly {
		s.Pods = s.ToRsPerPod*s.GlobalLinks + 1
	}
	for _, l := range []*LinkSpec{&s.HostLink, &s.ToRUplink, &s.AggUplink} {
		if *l == (LinkSpec{}) {
			*l = LinkSpec{DefaultRate, DefaultDelay}
		}
	}
	return s
}

func setZero(v *int, to int) {
	if *v == 0 {
		*v = to
	}
}

// Validate returns the first error in s as a [*SpecError], or nil.
func (s Spec) Validate() error {
	if e := s.check(); e != nil {
		return e
	}
	return nil
}

// limits are the largest counts of a spec.
type limits struct{ pods, tors, hosts, uplinks, ports int }

// checkPlanes checks limits that only several planes can exceed.
func (s Spec) checkPlanes() *SpecError {
	if s.Planes < 2 {
		return nil
	}
	uplinks, coreUplinks := s.Spines, 0
	if s.Kind == KindFatTree {
		uplinks, coreUplinks = s.AggsPerPod, s.Cores/s.AggsPerPod
	}
	if bits := bitsFor(s.Planes) + bitsFor(uplinks) + bitsFor(coreUplinks); bits > LabelBits {
		return specError("planes", "the paths of %d planes need %d label bits, there are %d; write fewer planes, or fewer uplinks of a switch",
			s.Planes, bits, LabelBits)
	}
	racks := s.Pods * s.ToRsPerPod
	if hosts := racks * s.HostsPerToR; hosts > MaxPlaneHosts {
		return specError("hosts_per_tor", "there would be %d hosts; the most is %d", hosts, MaxPlaneHosts)
	}
	if links := s.Planes * (racks*(s.HostsPerToR+uplinks) + s.Pods*s.AggsPerPod*coreUplinks); links > MaxPlaneLinks {
		return specError("planes", "there would be %d links; the most is %d", links, MaxPlaneLinks)
	}
	return nil
}

// specError returns the error of a key: a problem, a semicolon and a remedy.
func specError(key, format string, args ...any) *SpecError {
	problem, remedy, _ := strings.Cut(fmt.Sprintf(format, args...), "; ")
	return &SpecError{key, problem, remedy}
}

// ofKind is a key that a kind does not take, unless it has the derived value: a printed spec contains those that
// withDefaults derives.
type ofKind struct {
	key            string
	value, derived int
	kind           string // that takes it
}

// keysOf are the keys of each kind.
var keysOf = map[string]string{
	KindFatTree:   "a fat-tree takes k, or pods, tors_per_pod, aggs_per_pod, cores and hosts_per_tor",
	KindLeafSpine: "a leaf-spine takes tors, spines and hosts_per_tor",
	KindDragonfly: "a dragonfly takes tors_per_pod, global_links and hosts_per_tor",
}

// checkKind checks that the kind is known and that no key is of another kind.
func (s Spec) checkKind() *SpecError {
	d := s.withDefaults()
	others := []ofKind{{"global_links", s.GlobalLinks, 0, KindDragonfly}}
	switch s.Kind {
	case KindFatTree:
		if s.K%2 != 0 || s.K < 0 {
			return specError("k", "%d is not an even number of ports; write for example 4 or 8", s.K)
		}
		others = append(others, ofKind{"tors", s.ToRs, 0, KindLeafSpine}, ofKind{"spines", s.Spines, 0, KindLeafSpine})
	case KindLeafSpine:
		others = append(others, ofKind{"k", s.K, 0, KindFatTree}, ofKind{"pods", s.Pods, d.Pods, KindFatTree},
			ofKind{"tors_per_pod", s.ToRsPerPod, d.ToRsPerPod, KindFatTree}, ofKind{"aggs_per_pod", s.AggsPerPod, 0, KindFatTree},
			ofKind{"cores", s.Cores, d.Cores, KindFatTree})
	case KindDragonfly:
		if s.Pods != 0 && s.Pods != d.Pods {
			return specError("pods", "%d; each two pods of a dragonfly share one link, so there are tors_per_pod * global_links + 1, which is %d; leave the key out",
				s.Pods, d.Pods)
		}
		if s.Planes > 1 {
			return specError("planes", "a dragonfly has one; leave the key out")
		}
		others = []ofKind{{"k", s.K, 0, KindFatTree}, {"aggs_per_pod", s.AggsPerPod, 0, KindFatTree}, {"cores", s.Cores, 0, KindFatTree},
			{"tors", s.ToRs, 0, KindLeafSpine}, {"spines", s.Spines, 0, KindLeafSpine}}
	case "":
		return specError("kind", "missing; write %s, %s or %s", KindFatTree, KindLeafSpine, KindDragonfly)
	default:
		return specError("kind", "%q is unknown; write %s, %s or %s", s.Kind, KindFatTree, KindLeafSpine, KindDragonfly)
	}
	for _, c := range others {
		if c.value != 0 && c.value != c.derived {
			return specError(c.key, "belongs to kind %s; %s", c.kind, keysOf[s.Kind])
		}
	}
	return nil
}

func (s Spec) check() *SpecError {
	if e := s.checkKind(); e != nil {
		return e
	}
	d := s.withDefaults()
	type bound struct {
		key      string
		value    int
		min, max int
	}
	most := limits{MaxPods, MaxToRsPerPod, MaxHostsPerToR, MaxUplinks, MaxPorts}
	if s.Planes > 1 {
		most = limits{MaxPlaneCount, MaxPlaneCount, MaxPlaneCount, MaxPlaneCount, math.MaxUint16}
	}
	bounds := []bound{{"planes", s.Planes, 0, MaxPlanes}, {"hosts_per_tor", d.HostsPerToR, 1, most.hosts}}
	switch s.Kind {
	case KindLeafSpine:
		bounds = append(bounds,
			bound{"tors", d.ToRs, 2, most.tors},
			bound{"spines", d.Spines, 1, most.uplinks})
	case KindDragonfly:
		bounds = append(bounds,
			bound{"tors_per_pod", d.ToRsPerPod, 1, most.tors},
			bound{"global_links", d.GlobalLinks, 1, most.uplinks},
			bound{"pods", d.Pods, 2, most.pods})
	default:
		bounds = append(bounds,
			bound{"pods", d.Pods, 1, most.pods},
			bound{"tors_per_pod", d.ToRsPerPod, 1, most.tors},
			bound{"aggs_per_pod", d.AggsPerPod, 1, most.uplinks},
			bound{"cores", d.Cores, 1, 1 << 14})
	}
	given := map[string]int{
		"pods": s.Pods, "tors_per_pod": s.ToRsPerPod, "aggs_per_pod": s.AggsPerPod, "cores": s.Cores, "hosts_per_tor": s.HostsPerToR,
		"planes": s.Planes,
	}
	for _, b := range bounds {
		if b.value >= b.min && b.value <= b.max {
			continue
		}
		if s.Kind == KindFatTree && s.K != 0 && given[b.key] == 0 {
			return specError("k", "%d makes %s %d, which is outside %d to %d; write a smaller k, or %s beside it",
				s.K, b.key, b.value, b.min, b.max, b.key)
		}
		if b.value == 0 {
			return specError(b.key, "missing; write %d to %d", b.min, b.max)
		}
		return specError(b.key, "%d is outside %d to %d", b.value, b.min, b.max)
	}
	if s.Kind == KindFatTree {
		if d.Cores%d.AggsPerPod != 0 {
			return specError("cores", "%d is not a multiple of aggs_per_pod (%d)", d.Cores, d.AggsPerPod)
		}
		if u := d.Cores / d.AggsPerPod; u > most.uplinks {
			return specError("cores", "%d gives each aggregation switch %d uplinks; the most is %d", d.Cores, u, most.uplinks)
		} else if bits := bitsFor(d.AggsPerPod) + bitsFor(u); bits > LabelBits {
			return specError("cores", "%d paths need %d label bits; there are %d", d.Cores, bits, LabelBits)
		}
	}
	others := max(d.AggsPerPod, d.Spines)
	if s.Kind == KindDragonfly {
		others = d.ToRsPerPod - 1 + d.GlobalLinks
	}
	if p := d.HostsPerToR + others; p > most.ports {
		return specError("hosts_per_tor", "a ToR would have %d ports; the most is %d", p, most.ports)
	}
	if p := d.ToRsPerPod; p > most.ports || d.Pods > most.ports {
		return specError("tors_per_pod", "a switch would have more than %d ports", most.ports)
	}
	if e := d.checkPlanes(); e != nil {
		return e
	}
	for _, l := range []struct {
		key string
		LinkSpec
	}{{"host_link", d.HostLink}, {"tor_uplink", d.ToRUplink}, {"agg_uplink", d.AggUplink}} {
		if l.Rate <= 0 {
			return specError(l.key+".rate", "%v is not above zero; write for example 400Gb/s", l.Rate)
		}
		if l.Rate > MaxRate {
			return specError(l.key+".rate", "%v is above %v; write for example 400Gb/s", l.Rate, MaxRate)
		}
		if l.Delay < 0 {
			return specError(l.key+".delay", "%v is below zero; write for example 500ns", l.Delay)
		}
		if l.Delay > MaxDelay {
			return specError(l.key+".delay", "%v is above %v; write for example 500ns", l.Delay, MaxDelay)
		}
	}
	return nil
}
