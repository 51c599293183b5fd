//go:build linux

package process_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/pcap"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	p4program "github.com/ethereal-fabric/ethereal/p4switch/program"
)

// csigProgram is Ethereal's program, compiled with -DETHEREAL_CSIG.
func csigProgram(t testing.TB) ([]byte, *p4config.P4Info) {
	t.Helper()
	const name = "../../p4src/build/ethereal-csig"
	return readProgram(t, name+".json", name+".p4info.txtpb")
}

// csigTag is a tag between Ethernet and IP.
type csigTag struct {
	signal         byte // see p4src/shared/headers.p4
	value, locator uint32
}

const (
	csigAvailable, csigRelative, csigDelay = 0, 1, 2
	csigMost                               = 1<<20 - 1
	csigEtherType                          = 0x88B5
)

// csigPacket is a RoCEv2 packet to 10.0.0.9, or to the IPv6 address with that end, with a tag, or without one if it is
// nil.
func csigPacket(tag *csigTag, v6 bool) []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	if tag != nil {
		b = binary.BigEndian.AppendUint16(b, csigEtherType)
		b = binary.BigEndian.AppendUint64(b, uint64(tag.signal)<<60|uint64(tag.value)<<40|uint64(tag.locator)<<16)[:20]
	}
	if v6 {
		b = append(b, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 8+12+64, 17, 64)
		b = append(b, []byte{0: 0xFD, 15: 1}...)
		b = append(b, []byte{0: 0xFD, 15: 9}...)
	} else {
		b = append(b, 8, 0, 0x45, 0, 0, 20+8+12+64, 0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 9)
		ip := b[len(b)-20:]
		sum := uint32(0)
		for i := 0; i < len(ip); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
	}
	b = append(b, 0x12, 0x34, 0x12, 0xB7, 0, 8+12+64, 0, 0, 0x04, 0, 0xFF, 0xFF, 0, 0, 0, 17, 0, 0, 0, 99)
	return append(b, make([]byte, 64)...)
}

// tagOf returns a packet's tag, and the packet without it.
func tagOf(b []byte) (csigTag, []byte) {
	if binary.BigEndian.Uint16(b[12:]) != csigEtherType {
		return csigTag{}, b
	}
	v := binary.BigEndian.Uint64(b[14:])
	return csigTag{byte(v >> 60), uint32(v >> 40 & csigMost), uint32(v >> 16 & 0xFFFFFF)}, slices.Concat(b[:12], b[20:])
}

// hop is a switch whose only way out is port 2.
type hop struct {
	*testing.T
	sw  *interp.Switch
	now int64 // ns
}

func (h *hop) id(table string) p4program.TableID {
	id, ok := h.sw.Program().TableByName(table)
	if !ok {
		h.Fatalf("no table %s", table)
	}
	return id
}

func (h *hop) insert(table string, m p4program.FieldMatch, action string, args ...[]byte) {
	h.Helper()
	a, _ := h.sw.Program().ActionByName(h.id(table), action)
	e := interp.Entry{Match: []p4program.FieldMatch{m}, Target: interp.Target{Call: interp.ActionCall{Action: a, Args: args}}}
	if _, err := h.sw.Insert(h.id(table), e); err != nil {
		h.Fatal(err)
	}
}

// newHop returns a switch whose port 2 has a locator, and sends so many bytes in a window; locator 0: no entry.
func newHop(t *testing.T, prog *p4program.Program, locator byte, capacity uint32) *hop {
	h := &hop{T: t, sw: interp.NewSwitch(prog, interp.Config{QueuesPerPort: 8}), now: 1e9}
	h.insert("route_v4", p4program.FieldMatch{Value: []byte{10, 0, 0, 0}, PrefixLen: 8}, "forward_down", []byte{2})
	h.insert("route_v6", p4program.FieldMatch{Value: append([]byte{0xFD}, make([]byte, 15)...), PrefixLen: 8}, "forward_down", []byte{2})
	if locator != 0 {
		h.insert("csig_port", p4program.FieldMatch{Value: []byte{2}}, "signal", signalOf(locator, capacity)...)
	}
	return h
}

// csigUnit is the shift of a unit of bandwidth: 64 bytes in a window.
const csigUnit = 6

// signalOf are the parameters of csig_port's action for a port that sends capacity bytes in a window.
func signalOf(locator byte, capacity uint32) [][]byte {
	units := capacity >> csigUnit
	return [][]byte{{locator}, binary.BigEndian.AppendUint32(nil, units)[1:], {csigUnit},
		binary.BigEndian.AppendUint32(nil, uint32(min(1<<36/uint64(units), 1<<32-1)))}
}

// pass sends a packet through the switch, in whose queue it waits.
func (h *hop) pass(data []byte, wait time.Duration) []byte {
	h.Helper()
	var b, clones interp.Batch
	h.sw.Ingress(interp.Input{Port: 1, Data: slices.Clone(data), Now: h.now}, &b)
	var out []byte
	for _, p := range b.Packets {
		at := h.now + int64(wait)
		if o, ok := h.sw.Egress(p, interp.QueueState{EnqTime: h.now, DeqTime: at}, &clones); ok {
			out = slices.Clone(o.Data)
		}
	}
	if out == nil {
		h.Fatal("no packet leaves")
	}
	return out
}

func loadCSIG(t *testing.T) *p4program.Program {
	json, _ := csigProgram(t)
	prog, err := p4program.Load(json)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

// TestCSIGDelay: on a path of three switches the tag has in the end the delay of the one where the packet waited
// longest, and its place.
func TestCSIGDelay(t *testing.T) {
	prog := loadCSIG(t)
	for _, tt := range []struct {
		name  string
		begin csigTag
		waits [3]time.Duration
		want  csigTag
	}{
		{"the bottleneck in the middle", csigTag{csigDelay, 0, 0}, [3]time.Duration{5e3, 90e3, 10e3}, csigTag{csigDelay, 90, 2}},
		{"at the end", csigTag{csigDelay, 0, 0}, [3]time.Duration{5e3, 9e3, 10e3}, csigTag{csigDelay, 10, 3}},
		{"of equal ones the first", csigTag{csigDelay, 0, 0}, [3]time.Duration{9e3, 9e3, 9e3}, csigTag{csigDelay, 9, 1}},
		{"no queue", csigTag{csigDelay, 0, 0}, [3]time.Duration{}, csigTag{csigDelay, 0, 0}},
		{"worse before", csigTag{csigDelay, 100, 77}, [3]time.Duration{5e3, 90e3, 10e3}, csigTag{csigDelay, 100, 77}},
		{"more than the tag can say", csigTag{csigDelay, 0, 0}, [3]time.Duration{5e3, 2e9, 3e9}, csigTag{csigDelay, csigMost, 2}},
		{"an unknown signal", csigTag{3, 0, 0}, [3]time.Duration{5e3, 90e3, 10e3}, csigTag{3, 0, 0}},
	} {
		for _, v6 := range []bool{false, true} {
			packet := csigPacket(&tt.begin, v6)
			for i, wait := range tt.waits {
				packet = newHop(t, prog, byte(i+1), 1<<20).pass(packet, wait)
			}
			if got, _ := tagOf(packet); got != tt.want {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			}
		}
	}
	tag := csigTag{csigDelay, 3, 5}
	if got, _ := tagOf(newHop(t, prog, 0, 0).pass(csigPacket(&tag, false), time.Millisecond)); got != tag {
		t.Errorf("a port without an entry: %+v, want %+v", got, tag)
	}
}

// TestCSIGBandwidth: the available bandwidth is what the port did not send in the last whole window of 256 us.
func TestCSIGBandwidth(t *testing.T) {
	prog := loadCSIG(t)
	const window, capacity = 256_000, 4000 << csigUnit
	most := csigTag{csigAvailable, csigMost, 0}
	h := newHop(t, prog, 1, capacity)
	h.now = 100 * window
	ask := func(begin csigTag) csigTag {
		tag, _ := tagOf(h.pass(csigPacket(&begin, false), 0))
		return tag
	}
	if got, want := ask(most), (csigTag{csigAvailable, 4000, 1}); got != want {
		t.Errorf("an idle port: %+v, want %+v", got, want)
	}
	if got, want := ask(csigTag{csigRelative, csigMost, 0}), (csigTag{csigRelative, csigMost, 0}); got != want {
		t.Errorf("the share of an idle port: %+v, want %+v", got, want)
	}
	h.now = 101 * window
	plain := csigPacket(nil, false)
	for range 1000 {
		h.pass(plain, 0)
	}
	h.now += window - 1
	if got, want := ask(most), (csigTag{csigAvailable, 4000 - uint32(2*(len(plain)+8)>>csigUnit), 1}); got != want {
		t.Errorf("in the same window: %+v, want %+v", got, want)
	}
	h.now++
	used := uint32(1000*len(plain)+len(plain)+8) >> csigUnit
	if got, want := ask(most), (csigTag{csigAvailable, 4000 - used, 1}); got != want {
		t.Errorf("in the next window: %+v, want %+v", got, want)
	}
	share := ask(csigTag{csigRelative, csigMost, 0})
	if want := uint32(uint64(4000-used) << 20 / 4000); share.value > want || share.value < want-2 || share.locator != 1 {
		t.Errorf("the share: %+v, want %d at 1", share, want)
	}
	if got, want := ask(csigTag{csigAvailable, 4000 - used, 9}), (csigTag{csigAvailable, 4000 - used, 9}); got != want {
		t.Errorf("as bad as before: %+v, want %+v", got, want)
	}
	h.now += 2 * window
	if got, want := ask(most), (csigTag{csigAvailable, 4000, 1}); got != want {
		t.Errorf("after a window without packets: %+v, want %+v", got, want)
	}
	over := newHop(t, prog, 1, 64<<csigUnit)
	over.now = 7 * window
	for range 1000 {
		over.pass(plain, 0)
	}
	over.now += window
	if got, _ := tagOf(over.pass(csigPacket(&most, false), 0)); got.value != 0 {
		t.Errorf("a port that sent more than it can: %+v, want 0", got)
	}
}

// TestCSIGElse: the tag changes nothing else of a packet's way, and a quench has none.
func TestCSIGElse(t *testing.T) {
	prog := loadCSIG(t)
	for _, v6 := range []bool{false, true} {
		plain := newHop(t, prog, 1, 1<<20).pass(csigPacket(nil, v6), 1e6)
		_, rest := tagOf(newHop(t, prog, 1, 1<<20).pass(csigPacket(&csigTag{signal: csigDelay}, v6), 1e6))
		if !bytes.Equal(plain, rest) {
			t.Errorf("IPv6 %v: %x, without a tag %x", v6, rest, plain)
		}
		var quenches [2][]byte
		for i, tag := range []*csigTag{nil, {signal: csigDelay}} {
			h := newHop(t, prog, 1, 1<<20)
			device := h.id("device")
			a, _ := prog.ActionByName(device, "set_device")
			err := h.sw.SetDefault(device, interp.Target{Call: interp.ActionCall{Action: a, Args: [][]byte{{7}, {1}, {0}, {1}, {1}, {0}}}})
			if err == nil {
				err = h.sw.SetCloneSession(512+1, interp.CloneSession{Replicas: []interp.Replica{{Port: 1}}})
			}
			if err == nil {
				err = h.sw.SetCloneSession(512+2, interp.CloneSession{Replicas: []interp.Replica{{Port: 1}}})
			}
			register, _ := prog.RegisterByName("port_down")
			if err == nil {
				err = h.sw.SetRegister(register, 2, []byte{0, 0, 0, 5})
			}
			if err != nil {
				t.Fatal(err)
			}
			quenches[i] = h.pass(csigPacket(tag, v6), 0)
		}
		if !bytes.Equal(quenches[0], quenches[1]) {
			t.Errorf("IPv6 %v: the quench of a tagged packet is %x, of one without %x", v6, quenches[1], quenches[0])
		}
	}
}

// TestCSIGHops: two switches in a row, ours by both data paths and BMv2 where the environment's BMV2 names it: the tag
// that arrives names the port with less available bandwidth.
func TestCSIGHops(t *testing.T) {
	systemtest.Only(t)
	binary := etherealtest.Binary(t)
	commands := map[string][]string{"interpreter": {binary, "switch"}, "kernel": {binary, "switch", "--datapath", "kernel"}}
	if name := os.Getenv("BMV2"); name != "" {
		commands["bmv2"] = []string{name}
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) { csigHops(t, command) })
	}
}

func csigHops(t *testing.T, command []string) {
	ns := porttest.Enter(t)
	ns.Veth(t, "h1", "a1", 9000)
	ns.Veth(t, "a2", "b1", 9000)
	ns.Veth(t, "b2", "h2", 9000)
	if command[len(command)-1] == "kernel" {
		kernelOrSkip(t, "a1", "")
	}
	switches := []*running{
		startSwitchAt(t, ns, "127.0.0.1:9559", command, "a1", "a2"), startSwitchAt(t, ns, "127.0.0.1:9560", command, "b1", "b2"),
	}
	json, info := csigProgram(t)
	for _, p := range switches {
		p.push(t, json, info)
		p.write(t, p.entry(t, p4.Update_INSERT, "route_v4", lpm(8, 10, 0, 0, 0), "forward_down", []byte{2}))
	}
	in, err := port.OpenInterface("h1", port.InterfaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the test is over
	out, err := port.OpenInterface("h2", port.InterfaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the test is over
	poller, err := port.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer poller.Close() //nolint:errcheck // the test is over
	if err := poller.Add(out, 1); err != nil {
		t.Fatal(err)
	}
	kind := p4.Update_INSERT
	for _, capacity := range [][2]uint32{{20000 << csigUnit, 5000 << csigUnit}, {5000 << csigUnit, 20000 << csigUnit}} {
		for i, p := range switches {
			p.write(t, p.entry(t, kind, "csig_port", exact(2), "signal", signalOf(byte(i+1), capacity[i])...))
		}
		kind = p4.Update_MODIFY
		want := uint32(1)
		if capacity[1] < capacity[0] {
			want = 2
		}
		sent := csigPacket(&csigTag{csigAvailable, csigMost, 0}, false)
		in.Send([][]byte{sent})
		var got csigTag
		for end := time.Now().Add(20 * time.Second); got == (csigTag{}); {
			if time.Now().After(end) {
				t.Fatal("no tagged packet arrives")
			}
			if _, err := poller.Wait(time.Until(end), nil); err != nil {
				t.Fatal(err)
			}
			out.Receive(16, func(b []byte) {
				if tag, rest := tagOf(b); len(rest) < len(b) {
					got = tag
				}
			})
		}
		// Nothing but this packet and what the kernel sends for its own neighbours was in the windows before.
		if got.signal != csigAvailable || got.locator != want || got.value > 5000 || got.value < 4900 {
			t.Errorf("capacities of %d: %+v arrives, want about 5000 at %d", capacity, got, want)
		}
	}
}

// TestCSIGDissector: tshark shows the tag and what is behind it, by scripts/csig.lua.
func TestCSIGDissector(t *testing.T) {
	tshark := systemtest.Program(t, "tshark", "", "apt-get install tshark")
	var file bytes.Buffer
	w, err := pcap.NewWriter(&file, 2000)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range [][]byte{csigPacket(&csigTag{csigDelay, 90, 0x020103}, false), csigPacket(&csigTag{csigRelative, csigMost, 1}, true),
		csigPacket(nil, false), csigPacket(&csigTag{}, false)[:20]} {
		if err := w.Write(time.Unix(1, 0), p, len(p)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "csig.pcap")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-X", "lua_script:../../scripts/csig.lua", "-r", name, "-T", "fields"}
	for _, f := range []string{"csig.signal", "csig.value", "csig.locator", "csig.type", "infiniband.bth.destqp"} {
		args = append(args, "-e", f)
	}
	cmd := exec.Command(tshark, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	const want = "2\t90\t0x020103\t0x0800\t0x000011\n1\t1048575\t0x000001\t0x86dd\t0x000011\n\t\t\t\t0x000011\n\t\t\t\t\n"
	if string(got) != want || strings.Contains(stderr.String(), "Lua") {
		t.Errorf("tshark shows\n%swant\n%s%s", got, want, stderr.String())
	}
}
