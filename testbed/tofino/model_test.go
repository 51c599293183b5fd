package tofino

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// TestMain is the stand-in for the harness where [standIn] starts it as such.
func TestMain(m *testing.M) {
	if os.Getenv("ETHEREAL_TEST_HARNESS") != "" {
		actAsHarness(os.Args[slices.Index(os.Args, "--observation-log")+1])
		return
	}
	code := m.Run()
	if covered != nil {
		covered.print(os.Stdout)
	}
	os.Exit(code)
}

// covered is what all tests on the model have executed; nil: it is not asked for.
var covered *coverage

// actAsHarness answers as the harness does: packets leave as they came, by the next port, and every new entry of a
// table with the word exact in its name has the next place.
func actAsHarness(observations string) {
	log, err := os.OpenFile(observations, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	in := bufio.NewScanner(os.Stdin)
	for line, place := 1, 0; in.Scan(); line++ {
		w := strings.Fields(in.Text())
		switch w[0] {
		case "packet":
			var port int
			fmt.Sscan(w[1], &port)
			fmt.Fprintf(log, "%d %s\n", port+1, strings.ToUpper(w[2]))
		case "add":
			if w[1] == "label_carrier" && strings.Contains(w[2], ":") {
				fmt.Fprintf(log, "table:3:find_unused_way = %d (0x%x)\n", place, place)
				place++
			}
			fmt.Fprintln(log, "carried out:", in.Text())
		case "check_counter": // 5 packets of 91 bytes by port 3, nothing else
			name, index, _ := strings.Cut(strings.TrimSuffix(w[1], ")"), "(")
			n := 0
			if w[1] == "port_tx_data(3)" {
				n = 5
			}
			fmt.Printf("counter %s(virtual %s): bytes=%d packets=%d\n", name, index, n*91, n)
		case "check_register": // port 3 is down; no other port was looked at
			if w[1] == "port_down(3)" {
				fmt.Println("register port_down(physical 3): lo=6")
			}
		case "setdefault", "load":
			fmt.Fprintln(log, "carried out:", in.Text())
		case "wait":
			fmt.Println("unexpected packet output on port 3:")
			fmt.Println("0000  00 01")
		case "die":
			fmt.Fprintln(log, "assertion failed")
			return
		default:
			fmt.Fprintf(log, "<stdin>:%d: Unknown command %s\n", line, w[0])
		}
	}
}

// standIn starts the stand-in, and ends it after the test.
func standIn(t *testing.T) *Model {
	t.Helper()
	m := startStandIn(t)
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func startStandIn(t *testing.T) *Model {
	t.Helper()
	t.Setenv("ETHEREAL_TEST_HARNESS", "1")
	dir := t.TempDir()
	tables := `{"tables":[{"name":"ecmp_groups","table_type":"selection","stage_tables":[{"stage_number":7,
		"memory_resource_allocation":{"memory_units_and_vpns":[{"memory_units":[90]}],"spare_bank_memory_unit":91}}]}]}`
	for f, text := range map[string]string{"tofino.bin": "", "context.json": tables} {
		if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Start(context.Background(), os.Args[0], dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModel(t *testing.T) {
	m := standIn(t)
	out, err := m.Inject(3, []byte{0xAB, 0xCD})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Packet{{4, []byte{0xAB, 0xCD}}}, out); diff != "" {
		t.Errorf("packets (-want +got):\n%s", diff)
	}
	if _, err := m.Do("ad route_v4"); err == nil || !strings.Contains(err.Error(), "Unknown command ad") {
		t.Errorf("a wrong command: %v", err)
	}
	if _, err := m.Do("die"); err == nil || !strings.Contains(err.Error(), "assertion failed") {
		t.Errorf("a model that ends: %v; want its last line", err)
	}
	if _, err := m.Do(); err == nil {
		t.Error("a model that ended answers")
	}
}

func TestStartErrors(t *testing.T) {
	_, err := Start(context.Background(), os.Args[0], t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "make p4-chips") {
		t.Errorf("no pipeline: %v; want the command that makes one", err)
	}
}

// TestMirror: the model is written what the switch's tables say, and nothing twice.
func TestMirror(t *testing.T) {
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	sw := interp.NewSwitch(prog, interp.Config{})
	var lines []string
	m, err := NewMirror(standIn(t))
	if err != nil {
		t.Fatal(err)
	}
	m.model.trace = func(r Result) {
		for _, l := range r.Text {
			if c, ok := strings.CutPrefix(l, "carried out: "); ok {
				lines = append(lines, c)
			}
		}
	}
	if err := m.Use(sw); err != nil {
		t.Fatal(err)
	}
	sync := func(want ...string) {
		t.Helper()
		lines = nil
		if err := m.Sync(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("commands (-want +got):\n%s", diff)
		}
	}
	sync("setdefault device set_device(switch_id:0x0, hash_seed:0x0, hash_offset:0x0, control_priority:0x0, " +
		"quench_interval_us:0xffffffff)")

	insert := func(table, action string, match program.FieldMatch, args ...[]byte) interp.Handle {
		t.Helper()
		id, _ := prog.TableByName(table)
		a, _ := prog.ActionByName(id, action)
		call := interp.ActionCall{Action: a, Args: args}
		h, err := sw.Insert(id, interp.Entry{Match: []program.FieldMatch{match}, Target: interp.Target{Call: call}})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	wide := insert("route_v4", "forward_up", program.FieldMatch{Value: []byte{10, 0, 0, 0}, PrefixLen: 8}, []byte{1})
	insert("route_v4", "forward_down", program.FieldMatch{Value: []byte{10, 0, 1, 2}, PrefixLen: 32}, []byte{2})
	carrier := insert("label_carrier", "carrier_udp_sport", program.FieldMatch{Value: []byte{0}})
	sync("add label_carrier is_ipv6:0x0 carrier_udp_sport()",
		"add route_v4 0 dst:0b00001010************************ forward_up(group:0x1)",
		"add route_v4 1 dst:0b00001010000000000000000100000010 forward_down(port:0x2)")
	sync()

	for table, h := range map[string]interp.Handle{"route_v4": wide, "label_carrier": carrier} {
		id, _ := prog.TableByName(table)
		if err := sw.Delete(id, h); err != nil {
			t.Fatal(err)
		}
	}
	sync("add label_carrier 0 is_ipv6:0x0 NoAction()",
		"add route_v4 0 dst:0b00001010000000000000000100000010 forward_down(port:0x2)")
	insert("label_carrier", "carrier_udp_sport", program.FieldMatch{Value: []byte{0}})
	sync("add label_carrier 0 is_ipv6:0x0 carrier_udp_sport()")
}

// TestCells: counters begin at 0 with a new program, and port_down follows the chip's after an event.
func TestCells(t *testing.T) {
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMirror(standIn(t))
	if err != nil {
		t.Fatal(err)
	}
	sw := interp.NewSwitch(prog, interp.Config{})
	if err := m.Use(sw); err != nil {
		t.Fatal(err)
	}
	data, _ := prog.CounterByName("port_tx_data")
	if packets, _, err := m.Counted(data, 3); packets != 0 || err != nil {
		t.Errorf("a new program's counter: %d packets, %v", packets, err)
	}
	clear(m.before)
	if packets, bytes, err := m.Counted(data, 3); packets != 5 || bytes != 5*86 || err != nil {
		t.Errorf("port 3: %d packets of %d bytes in all, %v; want 5 of 430", packets, bytes, err)
	}
	for _, port := range []uint16{3, 4} {
		if _, err := m.Inject(p4src.PortEventPort, p4src.AppendPortEvent(nil, port, false, 6)); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.ReadBack(); err != nil {
		t.Fatal(err)
	}
	register, _ := prog.RegisterByName("port_down")
	for port, want := range map[int]byte{3: 6, 4: 0} {
		if v, err := sw.Register(register, port); err != nil || v[len(v)-1] != want {
			t.Errorf("port_down of port %d: %x, %v; want %d", port, v, err, want)
		}
	}
}
