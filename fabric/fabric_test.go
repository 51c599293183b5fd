package fabric

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustNew(t testing.TB, s Spec) *Fabric {
	t.Helper()
	f, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// reference is the fat-tree of the reference evaluation: 512 GPUs.
var reference = Spec{Kind: KindFatTree, Pods: 8, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16}

func TestShape(t *testing.T) {
	tests := []struct {
		name                           string
		spec                           Spec
		hosts, tors, aggs, cores, link int
	}{
		{"k=4", Spec{Kind: KindFatTree, K: 4}, 16, 8, 8, 4, 48},
		{"k=8", Spec{Kind: KindFatTree, K: 8}, 128, 32, 32, 16, 384},
		{"reference fat-tree", reference, 512, 32, 32, 16, 512 + 128 + 128},
		{"reference leaf-spine", Spec{Kind: KindLeafSpine, ToRs: 16, Spines: 16, HostsPerToR: 16}, 256, 16, 0, 16, 512},
	}
	for _, tt := range tests {
		f := mustNew(t, tt.spec)
		got := []int{f.Hosts(), f.ToRs(), f.Aggs(), f.Cores(), f.Links()}
		want := []int{tt.hosts, tt.tors, tt.aggs, tt.cores, tt.link}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: hosts, tors, aggs, cores, links (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestLargestFabric(t *testing.T) {
	f := mustNew(t, Spec{Kind: KindFatTree, K: 64})
	if f.Hosts() != 65536 || f.Switches() != 5120 {
		t.Errorf("k=64: %d hosts and %d switches, want 65536 and 5120", f.Hosts(), f.Switches())
	}
	if got := len(f.PathLabels(f.ToRID(0), f.ToRID(f.ToRs()-1))); got != 1024 {
		t.Errorf("k=64: %d paths between pods, want 1024", got)
	}
}

// TestSpecBuildsItself: what Spec returns builds the same fabric.
func TestSpecBuildsItself(t *testing.T) {
	for _, s := range []Spec{
		{Kind: KindFatTree, K: 4}, reference, {Kind: KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2},
		{Kind: KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2, Planes: 4},
	} {
		f := mustNew(t, s)
		again := mustNew(t, f.Spec())
		if d := cmp.Diff(f.Spec(), again.Spec()); d != "" || again.Links() != f.Links() {
			t.Errorf("%+v: built from its own spec: %d links, want %d\n%s", s, again.Links(), f.Links(), d)
		}
	}
}

// TestReferenceWiring checks what the reference evaluation says of its wiring:
// aggregation switch a of every pod connects to cores 4a to 4a+3.
func TestReferenceWiring(t *testing.T) {
	f := mustNew(t, reference)
	for a := range f.Aggs() {
		n := f.Node(f.AggID(a))
		for u := range n.Uplinks() {
			top := f.Link(n.Link(n.FirstUplink() + PortNo(u))).Peer(n.ID).Node
			if want := f.CoreID(4*(a%4) + u); top != want {
				t.Errorf("%s uplink %d leads to %s, want %s", f.Name(n.ID), u, f.Name(top), f.Name(want))
			}
		}
	}
}

// TestPaths walks every path of several fabrics: they are contiguous, end at
// the destination, differ from one another, and the ternary matches of the
// switches on the way select exactly the labelled ports.
func TestPaths(t *testing.T) {
	specs := []Spec{
		{Kind: KindFatTree, K: 4},
		reference,
		{Kind: KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 9, HostsPerToR: 1}, // 3 uplinks: not a power of two
		{Kind: KindLeafSpine, ToRs: 5, Spines: 6, HostsPerToR: 2},
		{Kind: KindLeafSpine, ToRs: 3, Spines: 3, HostsPerToR: 2, Planes: 3},
		{Kind: KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 2, Planes: 2},
	}
	for _, s := range specs {
		f := mustNew(t, s)
		for src := range f.Racks() {
			for dst := range f.Racks() {
				checkPaths(t, f, f.ToRID(src), f.ToRID(dst))
			}
		}
	}
}

func checkPaths(t *testing.T, f *Fabric, src, dst NodeID) {
	t.Helper()
	seen := map[string]Label{}
	if src == dst {
		return // no path, with planes one of no hop in each
	}
	for _, l := range f.PathLabels(src, dst) {
		hops, ok := f.Path(nil, src, dst, l)
		if !ok {
			t.Fatalf("%s to %s: label %d names no path", f.Name(src), f.Name(dst), l)
		}
		at, route := f.InPlane(src, f.PlaneOf(l)), ""
		for _, h := range hops {
			n := f.Node(at)
			if h.From != at || n.Link(h.Port) != h.Link {
				t.Fatalf("%s to %s by %d: hop %+v does not leave %s", f.Name(src), f.Name(dst), l, h, f.Name(at))
			}
			if h.Port >= n.FirstUplink() {
				for i, m := range f.UplinkMatches(at) {
					if m.Matches(l) != (n.FirstUplink()+PortNo(i) == h.Port) {
						t.Fatalf("%s: label %d and uplink %d: match %v", f.Name(at), l, i, m)
					}
				}
			}
			at = f.Link(h.Link).Peer(at).Node
			route += f.Name(at) + " "
		}
		if at != f.InPlane(dst, f.PlaneOf(l)) {
			t.Fatalf("%s to %s by %d ends at %s", f.Name(src), f.Name(dst), l, f.Name(at))
		}
		if other, dup := seen[route]; dup {
			t.Fatalf("%s to %s: labels %d and %d both mean %s", f.Name(src), f.Name(dst), l, other, route)
		}
		seen[route] = l
		if l >= f.LabelSpan() {
			t.Fatalf("label %d is not below the label span %d", l, f.LabelSpan())
		}
	}
}

// TestLabelSpan: no switch takes a label at or above the span.
func TestLabelSpan(t *testing.T) {
	for _, s := range []Spec{
		reference,
		{Kind: KindFatTree, Pods: 3, ToRsPerPod: 2, AggsPerPod: 3, Cores: 6, HostsPerToR: 1},
		{Kind: KindLeafSpine, ToRs: 5, Spines: 6, HostsPerToR: 2},
		{Kind: KindLeafSpine, ToRs: 5, Spines: 6, HostsPerToR: 2, Planes: 3},
	} {
		f := mustNew(t, s)
		for id := range NodeID(f.Nodes()) {
			for _, m := range f.UplinkMatches(id) {
				for l := f.LabelSpan(); l < 1<<LabelBits; l++ {
					if m.Matches(l) {
						t.Fatalf("%s takes label %d by %v; the span is %d", f.Name(id), l, m, f.LabelSpan())
					}
				}
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, s := range []Spec{reference, {Kind: KindLeafSpine, ToRs: 16, Spines: 16, HostsPerToR: 16}} {
		f := mustNew(t, s)
		for h := range NodeID(f.Hosts()) {
			tor := f.ToROf(h)
			if got, ok := f.HostByAddr(f.HostAddr4(h)); !ok || got != h {
				t.Fatalf("HostByAddr(%v) = %d, %v, want %d", f.HostAddr4(h), got, ok, h)
			}
			if got, ok := f.HostByAddr(f.HostAddr6(h)); !ok || got != h {
				t.Fatalf("HostByAddr(%v) = %d, %v, want %d", f.HostAddr6(h), got, ok, h)
			}
			if !f.ToRPrefix4(tor).Contains(f.HostAddr4(h)) || !f.ToRPrefix6(tor).Contains(f.HostAddr6(h)) ||
				!f.PodPrefix4(f.Node(h).Pod).Contains(f.HostAddr4(h)) || !f.PodPrefix6(f.Node(h).Pod).Contains(f.HostAddr6(h)) {
				t.Fatalf("%s is outside the prefixes of its ToR or pod", f.Name(h))
			}
		}
	}
}

func TestHostByForeignAddr(t *testing.T) {
	f := mustNew(t, reference)
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		a := f.HostAddr4(0)
		b[0] = rapid.SampledFrom([]byte{10, b[0]}).Draw(t, "first byte")
		if h, ok := f.HostByAddr(a); ok && f.HostAddr4(h) != a {
			t.Fatalf("%v is not the address of %s", a, f.Name(h))
		}
	})
}

func TestNames(t *testing.T) {
	for _, s := range []Spec{
		{Kind: KindFatTree, K: 4}, {Kind: KindLeafSpine, ToRs: 12, Spines: 11, HostsPerToR: 2},
		{Kind: KindFatTree, K: 4, Planes: 3}, {Kind: KindLeafSpine, ToRs: 12, Spines: 11, HostsPerToR: 2, Planes: 12},
	} {
		f := mustNew(t, s)
		for id := range NodeID(f.Nodes()) {
			if got, err := f.NodeByName(f.Name(id)); err != nil || got != id {
				t.Errorf("NodeByName(%q) = %d, %v", f.Name(id), got, err)
			}
		}
		for id := range LinkID(f.Links()) {
			l := f.Link(id)
			for _, name := range []string{f.LinkName(id), f.Name(l.B.Node) + "-" + f.Name(l.A.Node)} {
				if got, err := f.LinkByName(name); err != nil || got != id {
					t.Errorf("LinkByName(%q) = %d, %v", name, got, err)
				}
			}
		}
		for _, name := range []string{"", "tor", "tor99", "x1", "tor01", "core0-", "tor0", "tor0-tor1", "h-1", "p0tor0-h0", "p1h0-tor0", "p99tor0", "tor0-p1spine0"} {
			if _, err := f.LinkByName(name); err == nil {
				t.Errorf("LinkByName(%q) finds a link", name)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		spec Spec
		want string
	}{
		{Spec{}, "kind: missing"},
		{Spec{Kind: "torus"}, `kind: "torus" is unknown`},
		{Spec{Kind: KindFatTree, K: 5}, "k: 5 is not an even number"},
		{Spec{Kind: KindFatTree, K: 4, Spines: 3}, "spines: belongs to kind leaf-spine"},
		{Spec{Kind: KindLeafSpine, ToRs: 4}, "hosts_per_tor: missing; write 1 to 250"},
		{Spec{Kind: KindLeafSpine, ToRs: 1, Spines: 1, HostsPerToR: 1}, "tors: 1 is outside"},
		{Spec{Kind: KindLeafSpine, ToRs: 4, Spines: 65, HostsPerToR: 1}, "spines: 65 is outside"},
		{Spec{Kind: KindFatTree, K: 4, Cores: 3}, "cores: 3 is not a multiple"},
		{Spec{Kind: KindFatTree, K: 4, HostLink: LinkSpec{Rate: -1, Delay: 1}}, "host_link.rate: -1b/s is not above zero"},
		{Spec{Kind: KindFatTree, K: 4, ToRUplink: LinkSpec{Delay: 1}}, "tor_uplink.rate: 0b/s is not above zero"},
		{Spec{Kind: KindFatTree, K: 4, AggUplink: LinkSpec{Rate: 1, Delay: -1}}, "agg_uplink.delay: -1ps is below zero"},
		{Spec{Kind: KindFatTree, K: 400}, "k: 400 makes pods 400, which is outside 1 to 256"},
		{Spec{Kind: KindFatTree, K: 4, Pods: 400}, "pods: 400 is outside 1 to 256"},
		{Spec{Kind: KindFatTree, K: 4, ToRs: 3, Spines: 3}, "tors: belongs to kind leaf-spine"},
		{Spec{Kind: KindLeafSpine, ToRs: 4, Spines: 4, HostsPerToR: 1, K: 4}, "k: belongs to kind fat-tree"},
	}
	for _, tt := range tests {
		_, err := New(tt.spec)
		if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%+v): %v, want ErrSpec with %q", tt.spec, err, tt.want)
		}
	}
}

// TestLinkDefaults: only a link of which nothing is said has the defaults, and
// a fabric's specification gives that fabric again.
func TestLinkDefaults(t *testing.T) {
	for _, s := range []Spec{
		{Kind: KindFatTree, K: 4, HostLink: LinkSpec{Rate: 100 * Gbps}},
		{Kind: KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 1, HostLink: LinkSpec{Rate: 100 * Gbps}},
	} {
		f := mustNew(t, s)
		if got, want := f.Link(0).LinkSpec, (LinkSpec{100 * Gbps, 0}); got != want {
			t.Errorf("host link %+v, want %+v", got, want)
		}
		if got, want := f.Link(LinkID(f.Hosts())).LinkSpec, (LinkSpec{DefaultRate, DefaultDelay}); got != want {
			t.Errorf("ToR uplink %+v, want %+v", got, want)
		}
		if again := mustNew(t, f.Spec()); again.Spec() != f.Spec() || again.Link(0).LinkSpec != f.Link(0).LinkSpec {
			t.Errorf("built again from %+v: %+v", f.Spec(), again.Spec())
		}
	}
}

func TestUnknownNode(t *testing.T) {
	for _, tt := range []struct {
		spec Spec
		want string
	}{
		{Spec{Kind: KindFatTree, K: 4}, `no node "x1"; nodes are h0 to h15, tor0 to tor7, agg0 to agg7, core0 to core3`},
		{Spec{Kind: KindLeafSpine, ToRs: 3, Spines: 1, HostsPerToR: 2}, `no node "x1"; nodes are h0 to h5, tor0 to tor2, spine0`},
	} {
		if _, err := mustNew(t, tt.spec).NodeByName("x1"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

func TestUnits(t *testing.T) {
	times := map[string]Time{"0.5us": 500 * Nanosecond, "100ns": 100 * Nanosecond, "1 ms": Millisecond, "2s": 2 * Second, "7ps": 7}
	for text, want := range times {
		var got Time
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("time %q: %v, %v, want %v", text, got, err, want)
		}
	}
	var r Rate
	if err := r.UnmarshalText([]byte("1.6Tb/s")); err != nil || r != 1600*Gbps {
		t.Errorf("rate 1.6Tb/s: %v, %v", r, err)
	}
	var b Bytes
	if err := b.UnmarshalText([]byte("64KiB")); err != nil || b != 65536 {
		t.Errorf("size 64KiB: %v, %v", b, err)
	}
	for _, text := range []string{"", "us", "5", "5 parsecs", "-1us", "1e30s", "NaNus"} {
		var got Time
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("time %q is taken as %v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := Time(rapid.Int64Range(0, int64(100*Second)).Draw(t, "time"))
		var got Time
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want {
			t.Fatalf("%v: read back as %v, %v", want, got, err)
		}
	})
}

func TestTimeFor(t *testing.T) {
	tests := []struct {
		rate  Rate
		bytes int64
		want  Time
	}{
		{400 * Gbps, 1, 20},
		{400 * Gbps, 9048, 180960},
		{Gbps, 1500, 12 * Microsecond},
		{3, 1, 2666666666667},
		{400 * Gbps, 1 << 30, 20 << 30},
	}
	for _, tt := range tests {
		if got := tt.rate.TimeFor(tt.bytes); got != tt.want {
			t.Errorf("%v for %d bytes: %d ps, want %d", tt.rate, tt.bytes, got, tt.want)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		mustNew(b, Spec{Kind: KindFatTree, K: 32})
	}
}

func TestRough(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Time(2577844.3 * float64(Microsecond)).Rough(), "2.578 s"}, {(67577005999 * Picosecond).Rough(), "67.58 ms"},
		{(12500 * Nanosecond).Rough(), "12.5 us"}, {Time(0).Rough(), "0 s"}, {(999996 * Nanosecond).Rough(), "1 ms"},
		{(20 * Millisecond).Rough(), "20 ms"}, {(-3 * Microsecond).Rough(), "-3 us"},
		{Bytes(3422552064).Rough(), "3.423 GB"}, {Bytes(3.42e12).Rough(), "3.42 TB"}, {Bytes(999).Rough(), "999 B"},
		{Rate(0.5e6).Rough(), "500 kb/s"},
		{Count(1, "run"), "1 run"}, {Count(0, "run"), "0 runs"}, {Count(2, "switch"), "2 switches"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
