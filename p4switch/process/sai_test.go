//go:build linux

package process_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

const (
	saiRoutes   = 10_000
	saiNexthops = 100
	saiACLs     = 500
	saiCPUPort  = 510 // of the program
	saiRounds   = 5
	saiTurn     = time.Second
)

// BenchmarkSAI measures switches that execute sai_p4's middleblock with 10,000 /32 routes and 500 ternary ACL entries
// that no packet matches, as 4ward-p4/4ward publishes it. SAI_P4=P4INFO,JSON names what p4c makes of the program with
// -DPLATFORM_BMV2; BMV2 names a simple_switch_grpc. All switches run at once and are measured in turn, so that a ratio
// is of neighbours in time; the medians of the rounds are reported. "sequential" sends a packet when the one before has
// arrived, "bulk" as many as the senders can, both over veth. "memory" hands packets to the interpreter in this process
// and to the program in the kernel by BPF_PROG_TEST_RUN. What is "/cpu-s" is for a second of one processor, whatever
// else the machine does: of the switch's process (whose work in the kernel's data path is not its own), or of this
// thread.
func BenchmarkSAI(b *testing.B) {
	sai := os.Getenv("SAI_P4")
	if sai == "" {
		b.Skip("no sai_p4: compile it with p4c -DPLATFORM_BMV2, and name the two files as SAI_P4=P4INFO,JSON")
	}
	prog := readSAI(b, sai)
	own := etherealtest.Binary(b)
	for _, load := range []saiLoad{{name: "L3"}, {name: "WCMP16", members: 16},
		{name: "WCMP16-mirror", members: 16, mirror: true}} {
		b.Run(load.name, func(b *testing.B) {
			updates := prog.updates(b, load)
			lanes := []*saiLane{
				newSAILane(b, prog, "interpreter", []string{own, "switch", "--datapath", "interpreter"}, updates),
				newSAILane(b, prog, "kernel", []string{own, "switch", "--datapath", "kernel"}, updates),
			}
			if name := os.Getenv("BMV2"); name != "" {
				path, err := exec.LookPath(name)
				if err != nil {
					b.Fatalf("BMV2: %v", err)
				}
				lanes = append(lanes, newSAILane(b, prog, "bmv2", []string{path}, updates))
			}
			memory := newSAIMemory(b, prog, updates)
			kernel := newSAIKernel(b, memory)
			packets := saiPackets()
			for b.Loop() {
				saiMeasure(b, lanes, memory, kernel, packets)
			}
		})
	}
}

// saiMeasure measures every switch in turn.
func saiMeasure(b *testing.B, lanes []*saiLane, memory *interp.Switch, kernel *ebpf.Switch, packets [][]byte) {
	rates := map[string][]float64{}
	note := func(name string, rate float64) { rates[name] = append(rates[name], rate) }
	loads := []string{loadAverage(b)}
	for range saiRounds {
		for _, l := range lanes {
			note(l.name+"/sequential", l.sequential(b, packets))
			rate, each := l.bulk(b, packets)
			note(l.name+"/bulk", rate)
			if each > 0 {
				note(l.name+"/bulk/cpu-s", each)
			}
		}
		note("memory/interpreter/cpu-s", memoryRate(b, memory, packets))
		if rate := kernelRate(b, kernel, packets[0]); rate > 0 {
			note("memory/kernel/cpu-s", rate)
		}
		loads = append(loads, loadAverage(b))
	}
	for name, r := range rates {
		_, kind, _ := strings.Cut(name, "/")
		base := rates["bmv2/"+kind]
		var ratios []float64
		for i := range base {
			ratios = append(ratios, r[i]/base[i])
		}
		b.ReportMetric(median(r), name+map[bool]string{false: "/s"}[strings.HasSuffix(name, "/cpu-s")])
		if len(ratios) > 0 {
			b.ReportMetric(median(ratios), name+"-to-bmv2")
		}
	}
	b.Logf("load average before and after each round: %s", strings.Join(loads, ", "))
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func loadAverage(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// saiLane is one switch between two veths.
type saiLane struct {
	name    string
	in, out *port.Interface
	process *running // nil: its CPU time says nothing of its packets
}

func newSAILane(b *testing.B, prog *saiProgram, name string, command []string, updates []*p4.Update) *saiLane {
	ns := twoVeths(b)
	p := startSwitch(b, ns, command, "s1", "s2")
	p.push(b, prog.json, prog.info)
	for chunk := range slices.Chunk(updates, 500) {
		p.write(b, chunk...)
	}
	l := &saiLane{name: name}
	go func() {
		for {
			if _, err := p.ctl.Recv(); err != nil {
				return
			}
		}
	}()
	open := func(name string) *port.Interface {
		i, err := port.OpenInterface(name, port.InterfaceOptions{SendBuffer: 1 << 20, Slots: 2048})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { i.Close() }) //nolint:errcheck // the measurement is over
		return i
	}
	l.in, l.out = open("h1"), open("h2")
	if name != "kernel" {
		l.process = p
	}
	return l
}

// sequential sends packets one by one, each when the one before has arrived, and returns how many a second do.
func (l *saiLane) sequential(t testing.TB, packets [][]byte) float64 {
	t.Helper()
	n, lost := 0, 0
	start := time.Now()
	for end := start.Add(saiTurn); time.Now().Before(end); n++ {
		l.in.Send(packets[n%len(packets) : n%len(packets)+1])
		deadline := time.Now().Add(200 * time.Millisecond)
		for l.out.Receive(64, func([]byte) {}) == 0 {
			if runtime.Gosched(); time.Now().After(deadline) {
				lost++
				break
			}
		}
	}
	if lost > n/100 {
		t.Fatalf("%s: %d of %d packets did not arrive", l.name, lost, n)
	}
	return float64(n-lost) / time.Since(start).Seconds()
}

// bulk sends as many packets as go, and returns how many a second arrive, and how many for a second of the switch's CPU
// time.
func (l *saiLane) bulk(t testing.TB, packets [][]byte) (rate, each float64) {
	t.Helper()
	m := measurement{}
	used := func() time.Duration { return 0 }
	if l.process != nil {
		used = func() time.Duration { return l.process.cpu(t) }
	}
	start, before := time.Now(), used()
	m.flood(l.in, l.out, packets, saiTurn)
	rate = float64(m.received) / time.Since(start).Seconds()
	if cpu := used() - before; cpu > 0 {
		each = float64(m.received) / cpu.Seconds()
	}
	return rate, each
}

// newSAIMemory is a switch of ours without a process or interfaces.
func newSAIMemory(b *testing.B, prog *saiProgram, updates []*p4.Update) *interp.Switch {
	b.Helper()
	core, err := p4runtime.New(p4runtime.Config{DeviceID: 1, CPUPort: saiCPUPort, Now: func() int64 { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	if err := core.Install(&p4.ForwardingPipelineConfig{P4Info: prog.info, P4DeviceConfig: prog.json}); err != nil {
		b.Fatal(err)
	}
	stream := core.OpenStream(func(*p4.StreamMessageResponse) error { return nil })
	m := arbitration()
	m.GetArbitration().DeviceId = 1
	if err := stream.Recv(m); err != nil {
		b.Fatal(err)
	}
	for chunk := range slices.Chunk(updates, 500) {
		if err := core.Write(
			&p4.WriteRequest{DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Updates: chunk}); err != nil {
			b.Fatal(err)
		}
	}
	return core.Switch()
}

func memoryRate(t testing.TB, sw *interp.Switch, packets [][]byte) float64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n, out := 0, 0
	start := threadCPU()
	for end := time.Now().Add(saiTurn); time.Now().Before(end); {
		for range 64 {
			sw.Process(interp.Input{Port: 1, Data: packets[n%len(packets)]}, func(o interp.Output) {
				if o.Port == 2 {
					out++
				}
			})
			n++
		}
	}
	if out != n {
		t.Fatalf("memory: %d of %d packets left at port 2", out, n)
	}
	return float64(n) / (threadCPU() - start).Seconds()
}

// newSAIKernel puts the switch's program into the kernel, on no interface.
func newSAIKernel(b *testing.B, sw *interp.Switch) *ebpf.Switch {
	b.Helper()
	k, err := ebpf.Load(sw, ebpf.Config{QueuesPerPort: 8, CPUPort: saiCPUPort, Stopped: true,
		Ports: map[uint32]uint32{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(k.Close)
	for _, port := range []uint32{1, 2} {
		if err := k.SetPort(port, 1); err != nil { // the interface of a run
			b.Fatal(err)
		}
	}
	return k
}

// kernelRate is 0 when the kernel leaves the packet to the interpreter.
func kernelRate(t testing.TB, k *ebpf.Switch, packet []byte) float64 {
	t.Helper()
	if r, err := k.Run(packet); err != nil || r.Fate != ebpf.FateForwarded {
		return 0
	}
	// A run repeats on the packet as the last left it, whose TTL falls.
	const repeat, runs = 50, 200
	total := time.Duration(0)
	for range runs {
		_, each, err := k.Program().Benchmark(packet, repeat, nil)
		if err != nil {
			t.Fatal(err)
		}
		total += each * repeat
	}
	return repeat * runs / total.Seconds()
}

// saiPackets has one packet for each route: Ethernet and IPv4, 34 bytes.
func saiPackets() [][]byte {
	packets := make([][]byte, saiRoutes)
	for i := range packets {
		p := []byte{0, 1, 2, 3, 4, 5, 0, 10, 11, 12, 13, 14, 8, 0,
			0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 192, 168, 1, 1}
		p = append(p, saiRoute(i)...)
		sum := uint32(0)
		for at := 14; at < 34; at += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[at:]))
		}
		for sum>>16 != 0 {
			sum = sum&0xffff + sum>>16
		}
		binary.BigEndian.PutUint16(p[24:], ^uint16(sum))
		packets[i] = p
	}
	return packets
}

func saiRoute(i int) []byte { return binary.BigEndian.AppendUint32(nil, 10<<24|uint32(i)) }

// saiLoad is one row of the table.
type saiLoad struct {
	name    string
	members int // of the group that all routes point to; 0: they point to next hops
	mirror  bool
}

// saiProgram is the compiled program.
type saiProgram struct {
	info *p4config.P4Info
	json []byte
}

func readSAI(t testing.TB, files string) *saiProgram {
	t.Helper()
	info, json, ok := strings.Cut(files, ",")
	if !ok {
		t.Fatal("SAI_P4 must be P4INFO,JSON")
	}
	s := &saiProgram{}
	s.json, s.info = readProgram(t, json, info)
	return s
}

// updates are the entries that 4ward's benchmark has. Its entry for the default VRF is left out: the program forbids
// it.
func (s *saiProgram) updates(t testing.TB, load saiLoad) []*p4.Update {
	neighbor := []byte{1}
	us := []*p4.Update{
		s.entry(t, "router_interface_table", matches{"router_interface_id": saiName("rif-0")}, 0,
			"set_port_and_src_mac",
			[]byte{2}, []byte{0x11, 0x22, 0x33, 0x44, 0x55}),
		s.entry(t, "neighbor_table", matches{"router_interface_id": saiName("rif-0"), "neighbor_id": neighbor}, 0,
			"set_dst_mac",
			[]byte{0xaa, 0xbb, 0xcc, 0xdd, 0xee}),
	}
	for i := range saiNexthops {
		us = append(us, s.entry(t, "nexthop_table", matches{"nexthop_id": saiName("nhop-%d", i)}, 0, "set_ip_nexthop",
			saiName("rif-0"), neighbor))
	}
	if load.members > 0 {
		us = append(us, s.group(t, load.members)...)
	}
	for i := range saiRoutes {
		m := matches{"vrf_id": {0}, "ipv4_dst": saiRoute(i)}
		if load.members > 0 {
			us = append(us, s.entry(t, "ipv4_table", m, 0, "set_wcmp_group_id", saiName("wcmp-1")))
		} else {
			us = append(us, s.entry(t, "ipv4_table", m, 0, "set_nexthop_id", saiName("nhop-%d", i%saiNexthops)))
		}
	}
	for i := range saiACLs / 2 {
		src, dst, pre := []byte{172, 16, byte(i >> 8), byte(i)}, []byte{172, 17, byte(i >> 8), byte(i)},
			[]byte{172, 18, byte(i >> 8), byte(i)}
		us = append(us,
			s.entry(t, "acl_ingress_table", matches{"is_ipv4": {1}, "src_ip": src, "dst_ip": dst}, int32(i+100),
				"acl_forward"),
			s.entry(t, "acl_pre_ingress_table", matches{"is_ipv4": {1}, "dst_ip": pre}, int32(i+100), "set_vrf",
				[]byte{0}))
	}
	if load.mirror {
		us = append(us, s.mirror(t)...)
	}
	return us
}

// group is an action selector's group, and what leads to it.
func (s *saiProgram) group(t testing.TB, members int) (us []*p4.Update) {
	t.Helper()
	i := slices.IndexFunc(s.info.GetActionProfiles(),
		func(p *p4config.ActionProfile) bool { return p.GetPreamble().GetAlias() == "wcmp_group_selector" })
	if i < 0 {
		t.Fatal("the program has no wcmp_group_selector")
	}
	profile := s.info.GetActionProfiles()[i].GetPreamble().GetId()
	g := &p4.ActionProfileGroup{ActionProfileId: profile, GroupId: 1, MaxSize: int32(members)}
	for i := range members {
		m := &p4.ActionProfileMember{ActionProfileId: profile, MemberId: uint32(i + 1),
			Action: s.action(t, "set_nexthop_id", saiName("nhop-%d", i))}
		us = append(us, insert(&p4.Entity{Entity: &p4.Entity_ActionProfileMember{ActionProfileMember: m}}))
		g.Members = append(g.Members, &p4.ActionProfileGroup_Member{MemberId: uint32(i + 1), Weight: 1})
	}
	us = append(us, insert(&p4.Entity{Entity: &p4.Entity_ActionProfileGroup{ActionProfileGroup: g}}))
	to := s.entry(t, "wcmp_group_table", matches{"wcmp_group_id": saiName("wcmp-1")}, 0, "set_nexthop_id",
		saiName("nhop-0"))
	to.GetEntity().GetTableEntry().Action = &p4.TableAction{
		Type: &p4.TableAction_ActionProfileGroupId{ActionProfileGroupId: 1},
	}
	return append(us, to)
}

// mirror copies every IPv4 packet to the controller.
func (s *saiProgram) mirror(t testing.TB) []*p4.Update {
	const session = 255
	clone := &p4.CloneSessionEntry{SessionId: session,
		Replicas: []*p4.Replica{{PortKind: &p4.Replica_EgressPort{EgressPort: saiCPUPort}, Instance: 1}}}
	return []*p4.Update{
		insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
			PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
				Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: clone}}}}),
		s.entry(t, "acl_ingress_table", matches{"is_ipv4": {1}}, 1, "acl_copy", []byte{0}),
		s.entry(t, "ingress_clone_table", matches{"marked_to_copy": {1}, "marked_to_mirror": {0}}, 1, "ingress_clone",
			[]byte{session}),
	}
}

func saiName(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }

// matches are values by a key's field; fields of kinds with masks match the whole value.
type matches map[string][]byte

func (s *saiProgram) entry(t testing.TB, table string, m matches, priority int32, action string,
	params ...[]byte) *p4.Update {
	t.Helper()
	i := slices.IndexFunc(s.info.GetTables(),
		func(x *p4config.Table) bool { return x.GetPreamble().GetAlias() == table })
	if i < 0 {
		t.Fatalf("the program has no table %s", table)
	}
	e := &p4.TableEntry{TableId: s.info.GetTables()[i].GetPreamble().GetId(), Priority: priority,
		Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: s.action(t, action, params...)}}}
	for _, f := range s.info.GetTables()[i].GetMatchFields() {
		v, ok := m[f.GetName()]
		if !ok {
			continue
		}
		fm := &p4.FieldMatch{FieldId: f.GetId()}
		switch f.GetMatchType() {
		case p4config.MatchField_EXACT:
			fm.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: v}}
		case p4config.MatchField_LPM:
			fm.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: v, PrefixLen: f.GetBitwidth()}}
		case p4config.MatchField_OPTIONAL:
			fm.FieldMatchType = &p4.FieldMatch_Optional_{Optional: &p4.FieldMatch_Optional{Value: v}}
		case p4config.MatchField_TERNARY:
			mask := slices.Repeat([]byte{0xff}, int(f.GetBitwidth()/8))
			fm.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: v, Mask: mask}}
		default:
			t.Fatalf("table %s: field %s is matched as %v", table, f.GetName(), f.GetMatchType())
		}
		e.Match = append(e.Match, fm)
	}
	if len(e.Match) != len(m) {
		t.Fatalf("table %s has not all fields of %v", table, m)
	}
	return insert(&p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}})
}

func (s *saiProgram) action(t testing.TB, name string, params ...[]byte) *p4.Action {
	t.Helper()
	i := slices.IndexFunc(s.info.GetActions(),
		func(x *p4config.Action) bool { return x.GetPreamble().GetAlias() == name })
	if i < 0 || len(s.info.GetActions()[i].GetParams()) != len(params) {
		t.Fatalf("the program has no action %s of %d parameters", name, len(params))
	}
	a := &p4.Action{ActionId: s.info.GetActions()[i].GetPreamble().GetId()}
	for j, v := range params {
		a.Params = append(a.Params, &p4.Action_Param{ParamId: s.info.GetActions()[i].GetParams()[j].GetId(), Value: v})
	}
	return a
}
