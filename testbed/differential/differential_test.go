//go:build linux

package differential

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// reference finds BMv2, or skips the test.
func reference(t *testing.T) string {
	t.Helper()
	return systemtest.Program(t, "simple_switch_grpc", "BMV2", "name BMv2's in BMV2 or have it on the path")
}

// count returns how many packets a test sends: DIFFERENTIAL_PACKETS, or few.
func count(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("DIFFERENTIAL_PACKETS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("DIFFERENTIAL_PACKETS: %v", err)
	}
	return n
}

func newPair(t *testing.T, p Program, ports []uint32) *Pair {
	t.Helper()
	binary := reference(t)
	mine, err := NewOurs(p)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "differential") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	theirs, err := NewBMv2(t.Context(), binary, dir, p, ports)
	if err != nil && strings.Contains(err.Error(), "Error when importing p4info") {
		t.Skipf("BMv2 does not take the program: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := theirs.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return &Pair{Ours: mine, Reference: theirs, Lag: len(ports) - 1, Ports: ports}
}

// batch returns n packets, by the ports in turn.
func batch(ports []uint32, n int, frame func(port uint32) []byte) []Packet {
	var ps []Packet
	for len(ps) < n {
		for _, port := range ports {
			ps = append(ps, Packet{Port: port, Data: frame(port)})
		}
	}
	return ps
}

// ourProgram returns our own program, a fabric it can be given tables of, and the
// ports of a switch of that.
func ourProgram(t *testing.T) (Program, *fabric.Fabric, *p4rt.Schema, []uint32) {
	t.Helper()
	program := Program{JSON: p4src.V1ModelJSON(), P4Info: p4src.V1ModelP4Info()}
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	schema, err := p4rt.NewSchema(program.P4Info)
	if err != nil {
		t.Fatal(err)
	}
	ports := []uint32{1, 2, 3, 4, p4src.PortEventPort}
	return program, f, schema, ports
}

// TestEthereal compares our own program: the tables a controller gives an
// aggregation switch and a ToR, labelled and other traffic, random frames, ports
// that die and come back in the data plane.
func TestEthereal(t *testing.T) {
	program, f, schema, ports := ourProgram(t)
	for _, c := range []struct {
		node     fabric.NodeID
		segments bool
	}{{f.ToRID(0), false}, {f.AggID(0), false}, {f.ToRID(0), true}, {f.AggID(0), true}, {f.CoreID(0), true}} {
		node, name := c.node, f.Name(c.node)
		if c.segments {
			name += ", micro segments"
		}
		t.Run(name, func(t *testing.T) {
			pair := newPair(t, program, ports)
			tables := labelled(controller.Balancing{})
			if c.segments {
				tables = controller.Config{CarrierV6: controller.MicroSegments}
			}
			writeTables(t, pair, schema, f, node, tables)
			rng := rand.New(rand.NewPCG(1, uint64(node)))
			address := func() []byte {
				a := f.HostAddr4(fabric.NodeID(rng.IntN(f.Hosts()))).As4()
				if rng.IntN(20) == 0 {
					a[rng.IntN(4)] ^= byte(rng.Uint32())
				}
				return a[:]
			}
			epoch := uint32(0)
			frame := func(port uint32) []byte {
				if rng.IntN(40) == 0 {
					epoch++
					return p4src.AppendPortEvent(nil, uint16(1+rng.IntN(5)), rng.IntN(3) > 0, epoch)
				}
				inner := Frame(rng, address)
				if c.segments && rng.IntN(3) > 0 {
					return outer(rng, f, node, inner)
				}
				return inner
			}
			runAndCompare(t, pair, program.P4Info, ports, count(t, 2000), frame)
		})
	}
}

// outer puts what a frame has behind its Ethernet header into an outer IPv6 header, whose destination lists the switch
// itself first for the most part, then a neighbour.
func outer(rng *rand.Rand, f *fabric.Fabric, node fabric.NodeID, frame []byte) []byte {
	n := f.Node(node)
	neighbour := f.Link(n.Link(fabric.PortNo(1 + rng.IntN(n.Ports())))).Peer(node).Node
	list := []fabric.NodeID{node, neighbour, f.ToRID(rng.IntN(f.ToRs())), fabric.NodeID(rng.IntN(f.Hosts()))}
	if rng.IntN(4) == 0 {
		list = list[rng.IntN(4):]
	}
	if len(frame) < 15 {
		return frame
	}
	next := byte(4)
	if frame[14]>>4 == 6 {
		next = 41
	}
	label := uint32(0xFC000 | rng.IntN(8))
	if rng.IntN(4) == 0 {
		label = rng.Uint32() & 0xfffff
	}
	out := append([]byte{}, frame[:12]...)
	out = append(out, 0x86, 0xdd)
	out = binary.BigEndian.AppendUint32(out, 6<<28|uint32(rng.IntN(4))<<20|label)
	out = binary.BigEndian.AppendUint16(out, uint16(len(frame)-14))
	out = append(out, next, 64-63*byte(rng.IntN(16)/15))
	src, dst := f.HostAddr6(fabric.NodeID(rng.IntN(f.Hosts()))).As16(), fabric.SID(list...).As16()
	out = append(append(out, src[:]...), dst[:]...)
	return append(out, frame[14:]...)
}

// labelled is what tables follow from with labels in the packets themselves.
func labelled(b controller.Balancing) controller.Config {
	return controller.Config{CarrierV4: controller.UDPSourcePort, CarrierV6: controller.FlowLabel, Balancer: b}
}

// writer takes updates: a device, or two.
type writer interface{ Write(u *p4.Update) error }

// writeTables gives what a controller gives a switch.
func writeTables(t *testing.T, to writer, schema *p4rt.Schema, f *fabric.Fabric, node fabric.NodeID, c controller.Config) {
	t.Helper()
	c.Fabric, c.ECN = f, controller.ECN{Kmin: 800e3, Kmax: 800e3, Pmax: 1, Unit: 1500}
	c.MaxGroupSize = schema.MaxGroupSize() // QuenchIntervalUs 0: every packet for a dead port is answered
	core, err := controller.New(c)
	if err != nil {
		t.Fatal(err)
	}
	batches, err := schema.WriteRequests(p4rt.Writer{DeviceID: deviceID, ElectionID: electionID}, controller.Diff(nil, core.Desired(node)))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		for _, u := range b.Request.GetUpdates() {
			if err := to.Write(u); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// runAndCompare sends n packets in batches small enough for BMv2's queues, then
// compares all counters.
func runAndCompare(t *testing.T, pair *Pair, info *p4config.P4Info, ports []uint32, n int, frame func(uint32) []byte) {
	t.Helper()
	if err := run(pair, ports, n, frame); err != nil {
		t.Fatal(err)
	}
	compareCounters(t, pair, info)
	t.Logf("%d packets in, %d out, %d writes: no difference", pair.Packets, pair.Outputs, pair.Writes)
}

func run(pair *Pair, ports []uint32, n int, frame func(uint32) []byte) error {
	for pair.Packets < n {
		if err := pair.Run(batch(ports, 6*len(ports), frame)); err != nil {
			return fmt.Errorf("after %d packets: %w", pair.Packets, err)
		}
	}
	return nil
}

// compareCounters reads every counter of the program from both. (BMv2 has no
// wildcard over the tables for direct counters.)
func compareCounters(t *testing.T, pair *Pair, info *p4config.P4Info) {
	t.Helper()
	for _, c := range info.GetCounters() {
		err := pair.Compare("counter "+c.GetPreamble().GetName(), &p4.Entity{Entity: &p4.Entity_CounterEntry{
			CounterEntry: &p4.CounterEntry{CounterId: c.GetPreamble().GetId()},
		}})
		if err != nil {
			t.Error(err)
		}
	}
	for _, c := range info.GetDirectCounters() {
		err := pair.Compare("counter "+c.GetPreamble().GetName(), &p4.Entity{Entity: &p4.Entity_DirectCounterEntry{
			DirectCounterEntry: &p4.DirectCounterEntry{TableEntry: &p4.TableEntry{TableId: c.GetDirectTableId()}},
		}})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestSamples compares p4c's sample programs for v1model that have tables, with
// random entries and frames. P4C names the compiler, P4C_SAMPLES its folder of
// samples, P4C_CACHE, if set, a directory that keeps the compiled programs,
// DIFFERENTIAL_SAMPLES patterns of names, with commas between (default: a
// spread). Where random frames as they come cannot be compared, exceptions says
// why.
func TestSamples(t *testing.T) {
	reference(t)
	p4c := systemtest.Program(t, "p4c-bm2-ss", "P4C", "name p4c's compiler for BMv2 in P4C")
	samples := os.Getenv("P4C_SAMPLES")
	if samples == "" {
		t.Skip("P4C_SAMPLES does not name p4c's testdata/p4_16_samples")
	}
	names := []string{
		"basic_routing-bmv2", "action_profile-bmv2", "checksum1-bmv2", "header-stack-ops-bmv2",
		"issue655-bmv2", "issue1025-bmv2", "table-entries-ser-enum-bmv2", "ternary2-bmv2", "match-on-exprs2-bmv2",
		"arith-bmv2", "arith1-bmv2", "concat-bmv2", "equality-bmv2", "slice-def-use", "strength3", "union-bmv2",
		"union-valid-bmv2", "v1model-digest-containing-ser-enum", "key-bmv2", "key1-bmv2", "lpm1-bmv2", "multicast-bmv2",
	}
	if patterns := os.Getenv("DIFFERENTIAL_SAMPLES"); patterns != "" {
		names = nil
		for pattern := range strings.SplitSeq(patterns, ",") {
			paths, err := filepath.Glob(filepath.Join(samples, pattern))
			if err != nil || len(paths) == 0 {
				t.Fatalf("DIFFERENTIAL_SAMPLES: %q names none of %s: %v", pattern, samples, err)
			}
			for _, p := range paths {
				names = append(names, strings.TrimSuffix(filepath.Base(p), ".p4"))
			}
		}
	}
	cache := os.Getenv("P4C_CACHE")
	if cache == "" {
		cache = t.TempDir()
	}
	except := exceptions()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			source := filepath.Join(samples, name+".p4")
			if _, err := os.Stat(source); err != nil {
				t.Skip("no such sample in this version of p4c")
			}
			program := compile(t, p4c, source, filepath.Join(cache, name))
			ports := []uint32{0, 1, 2, 3, 4, 5, 6, 7}
			x := except[name]
			if x.refused {
				if _, err := NewOurs(program); err == nil {
					t.Error("it is taken now: compare it")
				} else {
					t.Logf("not compared: %s: %v", x.why, err)
				}
				return
			}
			pair := newPair(t, program, ports)
			rng := rand.New(rand.NewPCG(1, 2))
			for _, u := range Entries(rng, program.P4Info, 200) {
				if err := pair.Write(u); err != nil {
					t.Error(err)
				}
			}
			address := func() []byte {
				return []byte{byte(rng.IntN(2) * 10), 0, byte(rng.IntN(3)), byte(rng.IntN(8))}
			}
			frame := func(uint32) []byte {
				f := Frame(rng, address)
				if x.mend != nil {
					f = x.mend(f)
				}
				return f
			}
			if x.differs {
				t.Logf("may differ: %s: %v", x.why, run(pair, ports, count(t, 1000), frame))
				return
			}
			if x.mend != nil {
				t.Logf("on chosen packets: %s", x.why)
			}
			runAndCompare(t, pair, program.P4Info, ports, count(t, 1000), frame)
		})
	}
}

// compile returns the program that p4c makes of a source, which it leaves in
// base.json and base.p4info.txtpb.
func compile(t *testing.T, p4c, source, base string) Program {
	t.Helper()
	json, info := base+".json", base+".p4info.txtpb"
	if _, err := os.Stat(info); err != nil {
		if out, err := exec.Command(p4c, "--arch", "v1model", "--std", "p4-16", "-o", json, "--p4runtime-files", info, source).CombinedOutput(); err != nil {
			t.Skipf("p4c does not compile it for BMv2: %.200s", out)
		}
	}
	program := Program{P4Info: new(p4config.P4Info)}
	var err error
	if program.JSON, err = os.ReadFile(json); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(info)
	if err != nil {
		t.Fatal(err)
	}
	if err := prototext.Unmarshal(text, program.P4Info); err != nil {
		t.Fatal(err)
	}
	return program
}
