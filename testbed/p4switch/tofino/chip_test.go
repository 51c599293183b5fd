package tofino

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/program"
)

// chip returns the harness and the pipeline that the environment names.
func chip(t *testing.T) (harness, pipeline string) {
	t.Helper()
	harness, pipeline = os.Getenv(ModelVariable), os.Getenv(PipelineVariable)
	if harness == "" {
		t.Skipf("%s names no model: docs/tofino.md", ModelVariable)
	}
	if pipeline == "" {
		pipeline = "../../../p4src/build/tna/out/tofino/pipe" // of `make p4-chips`
	}
	pipeline, err := filepath.Abs(pipeline)
	if err != nil {
		t.Fatal(err)
	}
	return harness, pipeline
}

// TestChipScripts plays what P4Testgen makes of the chips' program on the chip's model: ETHEREAL_CHIP_TESTS names folders of
// its scripts, with colons between. The harness judges what comes out.
func TestChipScripts(t *testing.T) {
	harness, pipeline := chip(t)
	dirs := os.Getenv("ETHEREAL_CHIP_TESTS")
	if dirs == "" {
		t.Skip("ETHEREAL_CHIP_TESTS names no folder of P4Testgen's scripts: docs/tofino.md")
	}
	passed, sent, why := 0, 0, map[string]int{}
	for dir := range strings.SplitSeq(dirs, ":") {
		scripts, err := filepath.Glob(filepath.Join(dir, "*.stf"))
		if err != nil || len(scripts) == 0 {
			t.Fatalf("no scripts in %s: %v", dir, err)
		}
		for _, script := range scripts {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			if script, err = filepath.Abs(script); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), harness, "-l", pipeline, script)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err != nil {
				why[reason(string(out))]++
				if n := len(why); n < 12 {
					t.Errorf("%s: %v\n%s", script, err, last(string(out), 24))
				}
				continue
			}
			passed++
			if strings.Contains(string(text), "\nexpect ") {
				sent++
			}
		}
	}
	t.Logf("%d pass, in %d of which a packet is sent on", passed, sent)
	for _, w := range slices.Sorted(maps.Keys(why)) {
		t.Logf("%d fail: %s", why[w], w)
	}
}

// reason returns the line of a failed script's output that says what is wrong.
func reason(out string) string {
	for line := range strings.SplitSeq(out, "\n") {
		for _, sign := range []string{"mismatch", "shorter", "longer", "unexpected packet", "not seen", ".stf:"} {
			if strings.Contains(line, sign) {
				return sign
			}
		}
	}
	return "other"
}

func last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// torTables are a ToR's tables: hosts at ports 1 and 2, uplinks at ports 3 and 4, another ToR's host.
func torTables(t *testing.T, sw *interp.Switch) {
	t.Helper()
	p := sw.Program()
	call := func(action string, args ...uint64) interp.Target {
		at := slices.IndexFunc(p.ActionInfos(), func(a program.ActionInfo) bool { return a.Name == action })
		c := interp.ActionCall{Action: p.ActionInfos()[at].ID}
		for _, a := range args {
			c.Args = append(c.Args, []byte{byte(a >> 40), byte(a >> 32), byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)})
		}
		for i, param := range p.ActionInfos()[at].Params {
			c.Args[i] = c.Args[i][6-(param.Width+7)/8:]
		}
		return interp.Target{Call: c}
	}
	id := func(table string) program.TableID {
		id, ok := p.TableByName(table)
		if !ok {
			t.Fatalf("no table %s", table)
		}
		return id
	}
	insert := func(table string, m program.FieldMatch, priority int32, target interp.Target) {
		t.Helper()
		if _, err := sw.Insert(id(table), interp.Entry{Match: []program.FieldMatch{m}, Priority: priority, Target: target}); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
	}
	if err := sw.SetDefault(id("device"), call("set_device", 7, 0x1234, 0, 2, 1, 1000)); err != nil {
		t.Fatal(err)
	}
	insert("label_carrier", program.FieldMatch{Value: []byte{0}}, 0, call("carrier_udp_sport"))
	insert("label_carrier", program.FieldMatch{Value: []byte{1}}, 0, call("carrier_flow_label"))
	v6 := func(last byte) []byte { return []byte{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last} }
	for i, port := range []uint64{1, 2} {
		mac := 0x020000000010 + port
		insert("route_v4", program.FieldMatch{Value: []byte{10, 0, 0, byte(i + 1)}, PrefixLen: 32}, 0, call("deliver", port, mac))
		insert("route_v6", program.FieldMatch{Value: v6(byte(i + 1)), PrefixLen: 128}, 0, call("deliver", port, mac))
	}
	insert("route_v4", program.FieldMatch{Value: []byte{10, 1, 0, 0}, PrefixLen: 16}, 0, call("forward_down", 5))
	insert("route_v4", program.FieldMatch{Value: []byte{10, 0, 0, 0}, PrefixLen: 8}, 0, call("forward_up", 1))
	insert("route_v6", program.FieldMatch{Value: v6(0), PrefixLen: 64}, 0, call("forward_up", 1))
	for i, port := range []uint64{3, 4} {
		insert("source_route", program.FieldMatch{Value: []byte{byte(i)}, Mask: []byte{0x3F, 0xFD}}, 1, call("take_uplink", port))
		insert("notice", program.FieldMatch{Value: []byte{byte(port)}}, 0, call("tell", 1, 2))
		insert("uplink_of_port", program.FieldMatch{Value: []byte{byte(port)}}, 0, call("set_uplink_index", uint64(i)))
	}
}

// TestChipPackets sends random packets through the chip's model and through the interpreter with v1model's program, both
// with a ToR's tables: what comes out must be the same bytes by the same ports.
func TestChipPackets(t *testing.T) {
	harness, pipeline := chip(t)
	m, err := Start(context.Background(), harness, pipeline)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	sw := interp.NewSwitch(prog, interp.Config{})
	torTables(t, sw)
	mirror := NewMirror(m)
	mirror.Use(sw)
	if err := mirror.Sync(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	wrong := 0
	for i := range 1000 {
		port, kind, data := randomPacket(random)
		var want []string
		sw.Process(interp.Input{Port: port, Data: slices.Clone(data), Now: int64(i+1) * 1e6}, func(o interp.Output) {
			want = append(want, fmt.Sprintf("port %d %x", o.Port, o.Data))
		})
		out, err := mirror.Inject(port, data)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range out {
			got = append(got, fmt.Sprintf("port %d %x", p.Port, p.Data))
		}
		fate := "dropped"
		if len(want) > 0 {
			fate = "sent on"
		}
		if kinds[kind+", "+fate]++; slices.Equal(want, got) {
			continue
		}
		if wrong++; wrong < 8 {
			t.Errorf("packet %d (%s) in by port %d: %s\n  v1model: %v\n  chip:    %v", i, kind, port, hex.EncodeToString(data), want, got)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%4d %s", kinds[k], k)
	}
	if wrong > 0 {
		t.Errorf("%d packets differ", wrong)
	}
}
