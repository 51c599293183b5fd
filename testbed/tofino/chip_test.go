package tofino

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
)

// chip returns the harness and the pipeline that the environment names.
func chip(t *testing.T) (harness, pipeline string) {
	t.Helper()
	harness, pipeline = os.Getenv(ModelVariable), os.Getenv(PipelineVariable)
	if harness == "" {
		t.Skipf("%s names no model: docs/tofino.md", ModelVariable)
	}
	if pipeline == "" {
		pipeline = "../../p4src/build/tna/out/tofino/pipe" // of `make p4-chips`
	}
	pipeline, err := filepath.Abs(pipeline)
	if err != nil {
		t.Fatal(err)
	}
	return harness, pipeline
}

// TestChipScripts plays what P4Testgen makes of the chips' program on the chip's model, one script after the other on
// one model: ETHEREAL_CHIP_TESTS names folders of its scripts, with colons between.
func TestChipScripts(t *testing.T) {
	m := onChip(t)
	through := func(sw *interp.Switch) (stf.Process, error) {
		if err := m.Use(sw); err != nil {
			return nil, err
		}
		return func(in interp.Input, emit func(interp.Output)) error {
			if err := m.Sync(); err != nil {
				return err
			}
			out, err := m.Inject(in.Port, in.Data)
			for _, p := range out {
				emit(interp.Output{Port: p.Port, Data: p.Data})
			}
			return err
		}, nil
	}
	playScripts(t, func(s *stf.Script, prog *program.Program) (*stf.Report, error) { return s.RunThrough(prog, through) })
}

// onChip starts the model and returns what keeps its tables.
func onChip(t *testing.T) *Mirror {
	t.Helper()
	harness, pipeline := chip(t)
	var options []string
	if os.Getenv(coverageVariable) != "" {
		if covered == nil {
			var err error
			if covered, err = newCoverage(pipeline); err != nil {
				t.Fatal(err)
			}
		}
		options = []string{"-p"} // log what the program does
	}
	m, err := startModel(context.Background(), harness, pipeline, options...)
	if err != nil {
		t.Fatal(err)
	}
	if covered != nil {
		m.trace = covered.take
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	mirror, err := NewMirror(m)
	if err != nil {
		t.Fatal(err)
	}
	return mirror
}

// tables writes a switch's tables by names.
type tables struct {
	*testing.T
	sw *interp.Switch
}

func (t tables) id(table string) program.TableID {
	id, ok := t.sw.Program().TableByName(table)
	if !ok {
		t.Fatalf("no table %s", table)
	}
	return id
}

func (t tables) call(table, action string, args ...uint64) interp.Target {
	p := t.sw.Program()
	a, ok := p.ActionByName(t.id(table), action)
	if !ok {
		t.Fatalf("table %s has no action %s", table, action)
	}
	c := interp.ActionCall{Action: a}
	for i, param := range p.Actions[a].Info.Params {
		c.Args = append(c.Args, binary.BigEndian.AppendUint64(nil, args[i])[8-(param.Width+7)/8:])
	}
	return interp.Target{Call: c}
}

func (t tables) insert(table string, m program.FieldMatch, priority int32, action string, args ...uint64) {
	t.Helper()
	e := interp.Entry{Match: []program.FieldMatch{m}, Priority: priority, Target: t.call(table, action, args...)}
	if _, err := t.sw.Insert(t.id(table), e); err != nil {
		t.Fatalf("%s: %v", table, err)
	}
}

// torTables are a ToR's tables: hosts at ports 1 and 2, uplinks at ports 3 and 4, another ToR's host.
func torTables(t *testing.T, sw *interp.Switch) {
	t.Helper()
	p, write := sw.Program(), tables{t, sw}
	id, call, insert := write.id, write.call, write.insert
	if err := sw.SetDefault(id("device"), call("device", "set_device", 7, 0x1234, 0, 2, 1, 1000)); err != nil {
		t.Fatal(err)
	}
	insert("label_carrier", program.FieldMatch{Value: []byte{0}}, 0, "carrier_udp_sport")
	insert("label_carrier", program.FieldMatch{Value: []byte{1}}, 0, "carrier_flow_label")
	v6 := func(last byte) []byte { return []byte{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last} }
	for i, port := range []uint64{1, 2} {
		mac := 0x020000000010 + port
		insert("route_v4", program.FieldMatch{Value: []byte{10, 0, 0, byte(i + 1)}, PrefixLen: 32}, 0, "deliver", port, mac)
		insert("route_v6", program.FieldMatch{Value: v6(byte(i + 1)), PrefixLen: 128}, 0, "deliver", port, mac)
		insert("source_guard", program.FieldMatch{Value: []byte{byte(port)}}, 0, "own_addresses",
			0x0A000000+port, 0xFD00000000000000, port)
	}
	insert("route_v4", program.FieldMatch{Value: []byte{10, 1, 0, 0}, PrefixLen: 16}, 0, "forward_down", 5)
	insert("route_v4", program.FieldMatch{Value: []byte{10, 0, 0, 0}, PrefixLen: 8}, 0, "forward_up", 1)
	insert("route_v6", program.FieldMatch{Value: v6(0), PrefixLen: 64}, 0, "forward_up", 1)
	insert("ecn_profile", program.FieldMatch{Value: []byte{5}}, 0, "mark_between", 0, 0, 0xFFFF) // any depth is too deep
	for i, port := range []uint64{3, 4} {
		insert("source_route", program.FieldMatch{Value: []byte{byte(i)}, Mask: []byte{0x3F, 0xFD}}, 1, "take_uplink", port)
		insert("notice", program.FieldMatch{Value: []byte{byte(port)}}, 0, "tell", 1, 2)
		insert("uplink_of_port", program.FieldMatch{Value: []byte{byte(port)}}, 0, "set_uplink_index", uint64(i))
		insert("port_of_uplink", program.FieldMatch{Value: []byte{byte(i)}}, 0, "take_uplink", port)
	}
	profile := p.Tables[id("ecmp")].Info.Profile
	var members []interp.MemberID
	for _, port := range []uint64{3, 4} {
		member, err := sw.AddMember(profile, call("ecmp", "take_uplink", port).Call)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, member)
	}
	group, err := sw.CreateGroup(profile)
	if err == nil {
		err = sw.SetGroup(profile, group, members)
	}
	if err == nil {
		e := interp.Entry{Match: []program.FieldMatch{{Value: []byte{1}}}}
		e.Target = interp.Target{Kind: interp.ByGroup, Group: group}
		_, err = sw.Insert(id("ecmp"), e)
	}
	if err == nil {
		err = sw.SetMulticastGroup(1, []interp.Replica{{Port: 1}, {Port: 2}})
	}
	if err == nil {
		err = sw.SetMulticastGroup(2, []interp.Replica{{Port: 1}, {Port: 2}, {Port: 3}, {Port: 4}})
	}
	for port := range uint32(6) {
		if err == nil {
			to := []interp.Replica{{Port: port}}
			err = sw.SetCloneSession(512+port, interp.CloneSession{Replicas: to, Truncate: 90, Class: 1})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// twins are the model and the interpreter with v1model's program, to which the same happens.
type twins struct {
	*testing.T
	chip       *Mirror
	sw         *interp.Switch
	now        int64
	unlabelled bool // the chip's quenches are compared without their label
}

// both has a packet come in by a port of both, and compares what leaves.
func (t *twins) both(what string, port uint32, data []byte) []Packet {
	t.Helper()
	return t.compare(what, Packet{port, data}, func() ([]Packet, error) { return t.chip.Inject(port, data) })
}

// compare has a packet come into v1model's program, and does the same to the chip: the same bytes must leave by the
// same ports. Behind the IP packet of a quench or notice the chip leaves padding.
func (t *twins) compare(what string, in Packet, chip func() ([]Packet, error)) []Packet {
	t.Helper()
	t.now += 1e9
	var want []Packet
	t.sw.Process(interp.Input{Port: in.Port, Data: slices.Clone(in.Data), Now: t.now}, func(o interp.Output) {
		want = append(want, Packet{o.Port, slices.Clone(o.Data)})
	})
	got, err := chip()
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b Packet) int { return cmp.Or(int(a.Port)-int(b.Port), bytes.Compare(a.Data, b.Data)) }
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if len(want) != len(got) {
		t.Errorf("%s: v1model sends %v, the chip %v", what, want, got)
		return got
	}
	for i, w := range want {
		if q := 14 + 20 + 8; t.unlabelled && len(got[i].Data) > q+4 {
			got[i].Data[q+1] &^= 2
			got[i].Data[q+2], got[i].Data[q+3] = 0, 0
		}
		if got[i].Port != w.Port || !bytes.HasPrefix(got[i].Data, w.Data) {
			t.Errorf("%s, packet %d:\n v1model: port %d %x\n chip:    port %d %x",
				what, i, w.Port, w.Data, got[i].Port, got[i].Data)
		}
	}
	return got
}

// TestChipGenerator: an uplink dies, comes back by the controller's packet, and dies again, as the packet generator
// says it. Its packet comes in by port 68 as tofino1_base.p4 of p4c lays it out (pktgen_port_down_header_t): the
// harness has no command for the generator itself. A generator's events have epochs 1, 2, ..., which the chip counts.
func TestChipGenerator(test *testing.T) {
	chip, sw := torOnBoth(test)
	t := &twins{T: test, chip: chip, sw: sw}
	const generator = 68
	for epoch := range uint32(2) {
		epoch++
		notices := t.compare("down event", Packet{p4src.PortEventPort, p4src.AppendPortEvent(nil, 3, false, epoch)},
			func() ([]Packet, error) {
				return chip.model.Inject(generator, append([]byte{0, 0, 0, 3, 0, 0}, make([]byte, 58)...))
			})
		if len(notices) != 2 {
			t.Errorf("down event %d: %v, want notices by ports 1 and 2", epoch, notices)
		}
		if out := t.both("labelled, dead port", 1, labelledPacket(0)); len(out) != 2 {
			t.Errorf("a labelled packet to a dead port: %v, want a quench and the packet by another port", out)
		}
		t.both("back", p4src.PortEventPort, p4src.AppendPortEvent(nil, 3, true, epoch))
		if out := t.both("labelled, repaired", 1, labelledPacket(0)); len(out) != 1 || out[0].Port != 3 {
			t.Errorf("a labelled packet after the repair: %v, want port 3", out)
		}
	}
}

// TestChipFailure: an uplink dies and comes back, and a port that leads down dies, as a controller says it.
func TestChipFailure(test *testing.T) {
	chip, sw := torOnBoth(test)
	t := &twins{T: test, chip: chip, sw: sw}
	packetOut := append([]byte{0, 2}, labelledPacket(0)...)
	if out := t.both("packet-out", p4src.CPUPort, packetOut); len(out) != 1 || out[0].Port != 2 {
		t.Errorf("a packet-out to port 2: %v", out)
	}
	labelled := labelledPacket(0)
	if out := t.both("labelled", 1, labelled); len(out) != 1 || out[0].Port != 3 {
		t.Errorf("a labelled packet: %v, want port 3", out)
	}
	event := func(up bool) []byte { return p4src.AppendPortEvent(nil, 3, up, 5) }
	notices := t.both("down event", p4src.PortEventPort, event(false))
	if len(notices) == 0 {
		t.Fatal("the down event made no notice")
	}
	if out := t.both("a neighbour's notice", 4, noticeOf(notices[0].Data, 9)); len(out) != 3 {
		t.Errorf("a neighbour's notice by port 4: %v, want copies by ports 1 to 3", out)
	}
	if out := t.both("labelled, dead port", 1, labelled); len(out) != 2 {
		t.Errorf("a labelled packet to a dead port: %v, want a quench and the packet by another port", out)
	}
	t.both("IPv6, dead port", 1, labelledPacketV6(0))
	if out := t.both("another's source, dead port", 2, labelled); len(out) != 0 {
		t.Errorf("a packet to a dead port with another's source: %v, want neither it nor a quench", out)
	}
	t.both("down event of a port without an entry in notice", p4src.PortEventPort, p4src.AppendPortEvent(nil, 5, false, 6))
	down := labelledPacket(0)
	down[14+17] = 1 // to 10.1.0.1, by port 5
	down[24], down[25] = 0, 0
	binary.BigEndian.PutUint16(down[24:], checksum(down[14:34]))
	t.unlabelled = true // v1model looks for a label only in packets that go up
	if out := t.both("no way down", 1, down); len(out) != 1 || out[0].Port != 1 {
		t.Errorf("a packet with no way down: %v, want a quench", out)
	}
	t.unlabelled = false
	register, _ := sw.Program().RegisterByName(portDown)
	want, err := sw.Register(register, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := chip.ReadBack(); err != nil {
		t.Fatal(err)
	}
	if got, err := sw.Register(register, 3); err != nil || !bytes.Equal(want, got) || slices.Max(want) == 0 {
		t.Errorf("register %s of a dead port: v1model's %x, the chip's %x, %v", portDown, want, got, err)
	}
	t.both("back", p4src.PortEventPort, event(true))
	if out := t.both("labelled, repaired", 1, labelled); len(out) != 1 || out[0].Port != 3 {
		t.Errorf("a labelled packet after the repair: %v, want port 3", out)
	}
	sameCounters(test, chip, sw, func(port int) int { return port })
}

// sameCounters compares the model's counters with v1model's. Those of ports are added where by says the same of them.
// Bytes of quenches and notices, in port_tx_control, are not compared: the chip's have padding.
func sameCounters(t *testing.T, chip *Mirror, sw *interp.Switch, by func(port int) int) {
	t.Helper()
	for id, info := range sw.Program().Counters {
		perPort := strings.HasPrefix(info.Name, "port_")
		want, got := map[int]counterValue{}, map[int]counterValue{}
		add := func(to map[int]counterValue, index int, packets, bytes uint64, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if perPort {
				index = by(index)
			}
			c := to[index]
			if c.packets += packets; info.Name != p4rt.CounterControl {
				c.bytes += bytes
			}
			to[index] = c
		}
		for i := range info.Size {
			packets, bytes, err := sw.Counter(program.CounterID(id), i)
			add(want, i, packets, bytes, err)
			packets, bytes, err = chip.Counted(program.CounterID(id), i)
			add(got, i, packets, bytes, err)
		}
		for i, w := range want {
			if got[i] != w {
				t.Errorf("counter %s, cell %d: v1model %+v, the chip %+v", info.Name, i, w, got[i])
			} else if w.packets > 0 {
				t.Logf("counter %s, cell %d: %+v", info.Name, i, w)
			}
		}
	}
}

// TestChipECMP: unlabelled packets go up by every live member and by no dead one.
func TestChipECMP(t *testing.T) {
	chip, _ := torOnBoth(t)
	spread := func() map[uint32]int {
		t.Helper()
		ports := map[uint32]int{}
		for i := range 64 {
			packet := labelledPacket(0)
			binary.BigEndian.PutUint16(packet[34:], uint16(0x1000+i)) // UDP source: not a label
			out, err := chip.Inject(1, packet)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range out {
				ports[p.Port]++
			}
		}
		return ports
	}
	if s := spread(); len(s) != 2 || s[3] < 16 || s[4] < 16 || s[3]+s[4] != 64 {
		t.Errorf("two live uplinks: %v", s)
	}
	if _, err := chip.Inject(p4src.PortEventPort, p4src.AppendPortEvent(nil, 4, false, 1)); err != nil {
		t.Fatal(err)
	}
	if s := spread(); s[3] != 64 || len(s) != 1 {
		t.Errorf("port 4 is down: %v", s)
	}
	if _, err := chip.Inject(p4src.PortEventPort, p4src.AppendPortEvent(nil, 4, true, 1)); err != nil {
		t.Fatal(err)
	}
	if s := spread(); len(s) != 2 || s[3] < 16 || s[4] < 16 {
		t.Errorf("port 4 is back: %v", s)
	}
}

// torOnBoth returns the model and an interpreter's switch with a ToR's tables.
func torOnBoth(t *testing.T) (*Mirror, *interp.Switch) {
	t.Helper()
	chip := onChip(t)
	prog, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	sw := interp.NewSwitch(prog, interp.Config{QueuesPerPort: 8})
	torTables(t, sw)
	if err := chip.Use(sw); err != nil {
		t.Fatal(err)
	}
	if err := chip.Sync(); err != nil {
		t.Fatal(err)
	}
	return chip, sw
}

// otherUplink is the choice of table ecmp that v1model's hash did not make: the chip's is another.
var otherUplink = strings.NewReplacer("port 3 ", "port 4 ", "port 4 ", "port 3 ")

// TestChipPackets sends random packets through the chip's model and through the interpreter with v1model's program,
// both with a ToR's tables: what comes out must be the same bytes by the same ports, but for ecmp's choice.
func TestChipPackets(t *testing.T) {
	mirror, sw := torOnBoth(t)
	random := rand.New(rand.NewPCG(1, 2))
	const packets = 3000
	kinds := map[string]int{}
	wrong := 0
	for i := range packets {
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
		if len(want) == 1 && len(got) == 1 && otherUplink.Replace(want[0]) == got[0] {
			kinds["of these, by another uplink of ecmp's"]++
			continue
		}
		if wrong++; wrong < 8 {
			t.Errorf("packet %d (%s) in by port %d: %s\n  v1model: %v\n  chip:    %v",
				i, kind, port, hex.EncodeToString(data), want, got)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		t.Logf("%4d %s", kinds[k], k)
	}
	if wrong > 0 {
		t.Errorf("%d packets differ", wrong)
	}
	sameCounters(t, mirror, sw, func(port int) int { // ecmp's other choice is the other of ports 3 and 4
		if port == 4 {
			return 3
		}
		return port
	})
}
