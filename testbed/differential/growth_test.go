//go:build linux

package differential

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/testbed/bench/plot"
)

// BenchmarkGrowth measures how the cost of a packet grows with a table's entries, the
// number of headers and the packet's size, here and in BMv2, and the memory that
// an entry takes. GROWTH names the directory for switch-growth.json and
// switch-growth.svg (docs of this repository keeps both), else both are only
// computed. Without BMv2 its curves are left out.
//
// Costs are CPU time: of the measuring thread, best of several rounds, for ours
// in memory; of all threads of BMv2, with its pcap pipes, as it cannot do
// without input and output.
func BenchmarkGrowth(t *testing.B) {
	program := growthProgram(t)
	g := &growth{t: t, program: program}
	if binary := os.Getenv("BMV2"); binary != "" {
		dir, err := os.MkdirTemp("", "growth")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		d, err := NewBMv2(t.Context(), binary, dir, program, []uint32{0})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close() //nolint:errcheck // the capture files go with their folder
		g.bmv2 = d.(*process)
	}

	table := costs("entries in the table", "entries")
	table.Log = true
	for i, name := range []string{"by_exact", "by_lpm", "by_ternary"} {
		most := 100_000
		if name == "by_ternary" {
			most = 10_000
		}
		table.Series = append(table.Series, g.table(byte(i+1), name, most)...)
	}
	headers := costs("headers of 4 bytes, parsed and written", "headers")
	size := costs("packet", "bytes")
	for _, n := range []int{0, 1, 2, 4, 8, 16, 32} {
		g.add(&headers, n, func() []byte { return growthFrame(0, n, 0, 0, 200) })
	}
	for _, n := range []int{64, 256, 512, 1024, 1500, 4096, 9000} {
		g.add(&size, n, func() []byte { return growthFrame(0, 0, 0, 0, n) })
	}
	r := growthResult{Panels: []plot.Panel{table, headers, size}, BytesPerEntry: g.memory}
	out, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("GROWTH")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "switch-growth.json"), append(out, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "switch-growth.svg"), plot.SVG(r.Panels), 0o644); err != nil {
		t.Fatal(err)
	}
}

// costs is a panel of CPU times per packet.
func costs(by, x string) plot.Panel {
	return plot.Panel{Title: "CPU time per packet by " + by, X: x, Y: plot.Nanoseconds}
}

// growthResult is what the plots are drawn from.
type growthResult struct {
	Panels        []plot.Panel
	BytesPerEntry map[string]float64 // by switch and table
}

type growth struct {
	t       testing.TB
	program Program
	bmv2    *process
	memory  map[string]float64
}

func growthProgram(t testing.TB) Program {
	t.Helper()
	p := Program{P4Info: new(p4config.P4Info)}
	var err error
	if p.JSON, err = os.ReadFile("../../p4switch/ebpf/testdata/growth.json"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../p4switch/ebpf/testdata/growth.p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	if err := prototext.Unmarshal(text, p.P4Info); err != nil {
		t.Fatal(err)
	}
	return p
}

// growthFrame is a packet of growth.p4.
func growthFrame(op byte, words int, a uint64, b uint32, size int) []byte {
	f := append(make([]byte, 0, size), op, byte(words))
	f = append(f, binary.BigEndian.AppendUint64(nil, a)[2:]...)
	f = binary.BigEndian.AppendUint32(f, b)
	return append(f, make([]byte, size-len(f))...)
}

// new returns a switch of ours.
func (g *growth) new() *interp.Switch {
	g.t.Helper()
	p, err := program.Load(g.program.JSON)
	if err != nil {
		g.t.Fatal(err)
	}
	return interp.NewSwitch(p, interp.Config{})
}

// add measures frames and appends a point to the panel's two curves.
func (g *growth) add(p *plot.Panel, x int, frame func() []byte) {
	if p.Series == nil {
		p.Series = []plot.Series{{Name: "ours"}}
		if g.bmv2 != nil {
			p.Series = append(p.Series, plot.Series{Name: "BMv2"})
		}
	}
	p.Series[0].Add(x, math.Round(g.ours(g.new(), frame)))
	if g.bmv2 != nil {
		p.Series[1].Add(x, math.Round(g.theirs(frame)))
	}
}

// table measures a table as it fills up.
func (g *growth) table(op byte, name string, most int) []plot.Series {
	g.t.Helper()
	label := strings.TrimPrefix(name, "by_")
	out := []plot.Series{{Name: label + ", ours"}}
	if g.bmv2 != nil {
		out = append(out, plot.Series{Name: label + ", BMv2"})
	}
	if g.memory == nil {
		g.memory = map[string]float64{}
	}
	sw := g.new()
	id, ok := sw.Program().TableByName("In." + name)
	if !ok {
		g.t.Fatalf("no table %s", name)
	}
	act, ok := sw.Program().ActionByName(id, "In.forward")
	if !ok {
		g.t.Fatal("no action forward")
	}
	rng := rand.New(rand.NewPCG(1, uint64(op)))
	var entries []growthEntry
	seen := map[growthEntry]bool{}
	pick := func() []byte {
		e := entries[rng.IntN(len(entries))]
		return growthFrame(op, 0, e.a, e.b, 64)
	}
	heap := liveHeap()
	rss := g.rss()
	for size := 1; size <= most; size *= 10 {
		var updates []*p4.Update
		for len(entries) < size {
			e := newGrowthEntry(rng, op, len(entries))
			key := growthEntry{a: e.a, b: e.b, bits: e.bits}
			if seen[key] {
				continue
			}
			seen[key] = true
			entries = append(entries, e)
			_, err := sw.Insert(id, interp.Entry{
				Match: e.match(op), Priority: e.priority, Target: interp.Target{Call: interp.ActionCall{Action: act, Args: [][]byte{{0}}}},
			})
			if err != nil {
				g.t.Fatal(err)
			}
			updates = append(updates, e.update(op, g.program.P4Info, "In."+name))
		}
		out[0].Add(size, math.Round(g.ours(sw, pick)))
		if g.bmv2 != nil {
			g.write(updates)
			out[1].Add(size, math.Round(g.theirs(pick)))
		}
		g.t.Logf("%s with %d entries: %.0f ns %v", name, size, out[0].Y[len(out[0].Y)-1], out[len(out)-1].Y)
	}
	g.memory["ours "+label] = float64(liveHeap()-heap) / float64(most)
	if g.bmv2 != nil {
		g.memory["BMv2 "+label] = float64(g.rss()-rss) / float64(most)
	}
	runtime.KeepAlive(sw)
	return out
}

// growthEntry is one entry of one of the tables.
type growthEntry struct {
	a        uint64
	b        uint32
	bits     int // of b that count
	priority int32
}

func newGrowthEntry(rng *rand.Rand, op byte, i int) growthEntry {
	e := growthEntry{}
	switch op {
	case 1:
		e.a = rng.Uint64() >> 16
	case 2:
		e.bits = 16 + rng.IntN(17)
		e.b = rng.Uint32() &^ (1<<(32-e.bits) - 1)
	default:
		e.bits = 17 + i%16 // 16 masks
		e.b = rng.Uint32() &^ (1<<(32-e.bits) - 1)
		e.priority = int32(i) + 1
	}
	return e
}

func (e growthEntry) match(op byte) []program.FieldMatch {
	b := binary.BigEndian.AppendUint32(nil, e.b)
	switch op {
	case 1:
		return []program.FieldMatch{{Value: binary.BigEndian.AppendUint64(nil, e.a)[2:]}}
	case 2:
		return []program.FieldMatch{{Value: b, PrefixLen: e.bits}}
	}
	return []program.FieldMatch{{Value: b, Mask: e.mask()}, {Any: true}}
}

func (e growthEntry) mask() []byte {
	return binary.BigEndian.AppendUint32(nil, ^uint32(0)<<(32-e.bits))
}

func (e growthEntry) update(op byte, info *p4config.P4Info, table string) *p4.Update {
	te := &p4.TableEntry{Priority: e.priority}
	var action uint32
	for _, t := range info.GetTables() {
		if t.GetPreamble().GetName() == table {
			te.TableId = t.GetPreamble().GetId()
		}
	}
	for _, a := range info.GetActions() {
		if a.GetPreamble().GetName() == "In.forward" {
			action = a.GetPreamble().GetId()
		}
	}
	te.Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{
		ActionId: action, Params: []*p4.Action_Param{{ParamId: 1, Value: []byte{0}}},
	}}}
	m := &p4.FieldMatch{FieldId: 1}
	b := binary.BigEndian.AppendUint32(nil, e.b)
	switch op {
	case 1:
		m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: canonicalBytes(binary.BigEndian.AppendUint64(nil, e.a))}}
	case 2:
		m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: canonicalBytes(b), PrefixLen: int32(e.bits)}}
	default:
		m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: canonicalBytes(b), Mask: canonicalBytes(e.mask())}}
	}
	te.Match = []*p4.FieldMatch{m}
	return &p4.Update{Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: te}}}
}

// write inserts into BMv2, in batches.
func (g *growth) write(updates []*p4.Update) {
	g.t.Helper()
	for len(updates) > 0 {
		n := min(len(updates), 1000)
		req := &p4.WriteRequest{DeviceId: deviceID, ElectionId: electionID, Updates: updates[:n]}
		if _, err := g.bmv2.client.Write(g.t.Context(), req); err != nil {
			g.t.Fatal(err)
		}
		updates = updates[n:]
	}
}

// ours returns the CPU time of a packet in ns: the best of five rounds.
func (g *growth) ours(sw *interp.Switch, frame func() []byte) float64 {
	g.t.Helper()
	frames := make([][]byte, 4096)
	for i := range frames {
		frames[i] = frame()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := 0
	best := time.Duration(1 << 62)
	for range 5 {
		start := threadTime()
		const passes = 5
		for range passes {
			for _, f := range frames {
				sw.Process(interp.Input{Data: f}, func(interp.Output) { out++ })
			}
		}
		best = min(best, (threadTime()-start)/passes)
	}
	if out != 5*5*len(frames) {
		g.t.Fatalf("%d packets came out", out)
	}
	return float64(best.Nanoseconds()) / float64(len(frames))
}

// theirs returns the CPU time of a packet in BMv2 in ns.
func (g *growth) theirs(frame func() []byte) float64 {
	g.t.Helper()
	best := time.Duration(1 << 62)
	const batches, size = 20, 48
	for range 3 {
		before := g.bmv2.cpu(g.t)
		for range batches {
			var in []Packet
			for range size {
				in = append(in, Packet{Data: frame()})
			}
			out, err := g.bmv2.Run(in, size)
			if err != nil {
				g.t.Fatal(err)
			}
			if len(out[0]) != size {
				g.t.Fatalf("BMv2 sent %d of %d packets", len(out[0]), size)
			}
		}
		best = min(best, g.bmv2.cpu(g.t)-before)
	}
	return float64(best.Nanoseconds()) / (batches * size)
}

// cpu is what the process has used, user and system, all threads.
func (d *process) cpu(t testing.TB) (sum time.Duration) {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the thread ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// rss is the resident memory of BMv2 in bytes.
func (g *growth) rss() int {
	if g.bmv2 == nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", g.bmv2.cmd.Process.Pid))
	if err != nil {
		g.t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		g.t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func liveHeap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
