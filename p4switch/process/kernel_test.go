//go:build linux

package process_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// wired is a switch on interfaces, with a host at each port.
type wired struct {
	lab
	hosts []*endpoint
	names running // of the program's tables
	sent  uint64
}

// newWired starts a switch with three ports that runs Ethereal's program as in a rack, in the kernel with a hook.
func newWired(t *testing.T, ns *porttest.Namespace, name string, hook ebpf.HookKind) *wired {
	t.Helper()
	w := &wired{lab: lab{t: t}, names: running{info: p4src.V1ModelP4Info()}}
	cfg := process.Config{Kernel: hook != "", KernelHook: hook, Queues: 8, CPUPort: 255}
	for i, n := range []string{"1", "2", "3"} {
		host, near := name+"h"+n, name+"s"+n
		ns.Veth(t, host, near, 2000)
		p, err := port.OpenInterface(near, port.InterfaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Ports = append(cfg.Ports, process.PortConfig{Number: uint32(i + 1), Name: near, Port: p, Index: p.Index()})
		w.hosts = append(w.hosts, newEndpoint(t, host))
	}
	links, err := port.OpenLinks()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Links = links
	if w.d, err = process.New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := w.d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.d.Install(p4src.V1ModelJSON(), w.names.info); err != nil {
		t.Fatal(err)
	}
	w.write(w.names.rack(t)...)
	w.write(w.names.entry(t, p4.Update_INSERT, "route_v4", lpm(24, 10, 0, 1, 0), "deliver", []byte{3}, []byte{2, 0, 0, 0, 0, 9}),
		w.balanced(2))
	return w
}

// kernelOrSkip skips the test where no program can be attached to an interface.
func kernelOrSkip(t *testing.T, name string, hook ebpf.HookKind) {
	t.Helper()
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ebpf.Attach(i.Index, hook)
	missing := []error{unix.EPERM, unix.ENOSYS, unix.EINVAL, bpf.ErrNotSupported}
	if slices.ContainsFunc(missing, func(e error) bool { return errors.Is(err, e) }) {
		t.Skipf("programs cannot be attached to interfaces here: %v", err)
	}
	if err == nil {
		err = h.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// balanced is the group of packets that no label guides: a selector with one member.
func (w *wired) balanced(uplink byte) *p4.Update {
	u := w.names.entry(w.t, p4.Update_INSERT, "ecmp", exact(1), "take_uplink", []byte{uplink})
	te := u.GetEntity().GetTableEntry()
	te.Action = &p4.TableAction{Type: &p4.TableAction_ActionProfileActionSet{ActionProfileActionSet: &p4.ActionProfileActionSet{
		ActionProfileActions: []*p4.ActionProfileAction{{Action: te.GetAction().GetAction(), Weight: 1}},
	}}}
	return u
}

func (w *wired) send(frames ...[]byte) {
	w.hosts[0].send(frames...)
	w.sent += uint64(len(frames))
}

// settled waits until the switch has made something of all packets that were sent.
func (w *wired) settled() process.Stats {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s := w.d.Stats()
		if s.Ingress-s.PortEvents == w.sent || s.Ingress == w.sent {
			return s
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after a minute, %d packets: %+v", w.sent, s)
		}
		time.Sleep(time.Millisecond)
	}
}

// receive waits for n frames at a host.
func (w *wired) receive(host, n int) [][]byte {
	w.t.Helper()
	var got [][]byte
	for deadline := time.Now().Add(time.Minute); len(got) < n; {
		w.hosts[host-1].port.Receive(n-len(got), func(b []byte) { got = append(got, bytes.Clone(b)) })
		if len(got) == n {
			break
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d of %d frames after a minute: %+v", len(got), n, w.d.Stats())
		}
		if _, err := w.hosts[host-1].poller.Wait(time.Second, nil); err != nil {
			w.t.Fatal(err)
		}
	}
	slices.SortFunc(got, bytes.Compare) // what goes up may be overtaken
	return got
}

// counts reads all counters of the program, as a controller does.
func (w *wired) counts() []*p4.Entity {
	w.t.Helper()
	tid, _ := w.names.table(w.t, "source_route", "take_uplink")
	var out []*p4.Entity
	w.d.Do(func(c *p4runtime.Core) {
		err := c.Read(&p4.ReadRequest{Entities: []*p4.Entity{
			{Entity: &p4.Entity_CounterEntry{CounterEntry: &p4.CounterEntry{}}},
			{Entity: &p4.Entity_DirectCounterEntry{DirectCounterEntry: &p4.DirectCounterEntry{TableEntry: &p4.TableEntry{TableId: tid}}}},
		}}, func(r *p4.ReadResponse) error {
			out = append(out, r.GetEntities()...)
			return nil
		})
		if err != nil {
			w.t.Error(err)
		}
	})
	return out
}

// roce is a RoCEv2 packet to 10.0.0.2, or by host 3's prefix 10.0.1.2.
func roce(size int, source uint16, below bool) []byte {
	f := rocePacket(size, source)
	if below {
		f[32]++ // and the checksum
		f[25]--
		if f[25] == 0xff {
			f[24]--
		}
	}
	return f
}

// TestKernelDatapath sends the same packets through a switch in the kernel and
// through the interpreter: the same ones come out, the counters are the same, and
// writes to tables and counters take effect. The packets that no label guides are spread in
// turn, which takes a register, so the kernel hands them up.
func TestKernelDatapath(t *testing.T) {
	for _, hook := range []ebpf.HookKind{ebpf.HookTCX, ebpf.HookClsact} {
		t.Run(string(hook), func(t *testing.T) {
			ns := porttest.Enter(t)
			kernelOrSkip(t, "lo", hook)
			testKernelDatapath(t, ns, hook)
		})
	}
}

func testKernelDatapath(t *testing.T, ns *porttest.Namespace, hook ebpf.HookKind) {
	k, judge := newWired(t, ns, "k", hook), newWired(t, ns, "i", "")
	both := []*wired{k, judge}
	for _, w := range both {
		w.write(w.names.entry(t, p4.Update_INSERT, "balancer", exact(1), "spray_round_robin", []byte{1}),
			w.names.entry(t, p4.Update_INSERT, "uplink_group", exact(1), "set_slots", []byte{1}, []byte{1}),
			w.names.entry(t, p4.Update_INSERT, "uplink_slot", exact(1, 0), "take_uplink", []byte{2}))
	}
	if s := k.d.Stats().Kernel; s.Err != "" || s.Hook != string(hook) {
		t.Fatalf("the kernel does not take the program: %+v", s)
	}
	compare := func(what string, a, b any) {
		t.Helper()
		if diff := cmp.Diff(b, a, cmp.Comparer(proto.Equal)); diff != "" {
			t.Errorf("%s: interpreter -, kernel +:\n%s", what, diff)
		}
	}
	const packets = 60
	for _, w := range both {
		for i := range packets {
			w.send(roce(64+20*i, 0xc000+uint16(i), i%3 == 0)) // odd sources are labelled
		}
		w.send([]byte("a frame that nobody routes, of no known type"))
	}
	s := k.settled()
	judge.settled()
	for host, n := range map[int]int{2: 40, 3: 20} {
		compare("packets", k.receive(host, n), judge.receive(host, n))
	}
	if s = k.d.Stats(); s.Kernel.Forwarded != 40 || len(s.Kernel.Up) == 0 {
		t.Errorf("the kernel: %+v", s.Kernel)
	}
	compare("counters", k.counts(), judge.counts())

	for _, u := range s.Kernel.Up {
		t.Logf("%d packets up: %s", u.Packets, u.Construct)
	}

	// A route that is gone, and one that changes, are so for the next packet.
	for _, w := range both {
		gone := w.names.entry(t, p4.Update_DELETE, "route_v4", lpm(24, 10, 0, 1, 0), "deliver")
		gone.GetEntity().GetTableEntry().Action = nil
		moved := w.names.entry(t, p4.Update_MODIFY, "route_v4", lpm(24, 10, 0, 0, 0), "deliver", []byte{3}, []byte{2, 0, 0, 0, 0, 7})
		w.write(gone, moved)
		before := w.d.Stats()
		w.send(roce(100, 0xc001, false), roce(100, 0xc001, true))
		after := w.settled()
		if n := after.PipelineDrops.Total() - before.PipelineDrops.Total(); n != 1 {
			t.Errorf("%d packets dropped for want of a route", n)
		}
	}
	compare("packets", k.receive(3, 1), judge.receive(3, 1))
	compare("counters", k.counts(), judge.counts())

	// A counter that is written starts from there for both.
	for _, w := range both {
		w.write(&p4.Update{Type: p4.Update_MODIFY, Entity: &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: w.counter("port_tx_data", 3)}}})
		w.send(roce(100, 0xc001, false), roce(100, 0xc000, false))
		w.settled()
		w.receive(3, 2)
	}
	compare("counters", k.counts(), judge.counts())
	for _, w := range both {
		if s := w.d.Stats(); s.Ingress != w.sent || s.Sent != 63 {
			t.Errorf("%d packets sent: %+v", w.sent, s)
		}
	}
	// A program that the switch has not had before takes the old one's place.
	json, info := program(t, "lpm")
	for _, w := range both {
		if err := w.d.Install(json, info); err != nil {
			t.Fatal(err)
		}
		w.names.info = info
		w.write(w.names.entry(t, p4.Update_INSERT, "ipv4_lpm", lpm(24, 10, 0, 0, 0), "forward", []byte{2, 0, 0, 0, 0, 9}, []byte{2}))
		w.send(roce(100, 0xc001, false))
		w.settled()
	}
	compare("packets", k.receive(2, 1), judge.receive(2, 1))
	if s := k.d.Stats(); s.Kernel.Err != "" || s.Kernel.Forwarded != 44 {
		t.Errorf("the kernel: %+v", s.Kernel)
	}
	// A program that the kernel does not take is the interpreter's, with all packets.
	k.d.RefuseKernel(errors.New("too large"))
	for _, w := range both {
		w.send(roce(100, 0xc001, false))
		w.settled()
	}
	compare("packets", k.receive(2, 1), judge.receive(2, 1))
	if s := k.d.Stats(); s.Kernel.Err != "too large" || s.Kernel.Forwarded != 44 {
		t.Errorf("the kernel: %+v", s.Kernel)
	}
}

// counter is a cell that holds 1000 packets.
func (w *wired) counter(name string, index int64) *p4.CounterEntry {
	for _, c := range w.names.info.GetCounters() {
		if c.GetPreamble().GetAlias() == name {
			return &p4.CounterEntry{CounterId: c.GetPreamble().GetId(), Index: &p4.Index{Index: index},
				Data: &p4.CounterData{PacketCount: 1000, ByteCount: 1}}
		}
	}
	w.t.Fatalf("no counter %s", name)
	return nil
}

// A switch that is killed leaves nothing on its interfaces.
func TestKernelDatapathKilled(t *testing.T) {
	systemtest.Only(t)
	ns := porttest.Enter(t)
	ns.Veth(t, "h1", "s1", 1500)
	kernelOrSkip(t, "s1", ebpf.HookTCX)
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch", "--datapath", "kernel"}, "s1")
	p.program(t)
	if n := attached(t, "s1"); n != 1 {
		t.Errorf("%d programs while the switch runs", n)
	}
	p.stop()
	err := errors.Join(p.conn.Close(), p.cmd.Process.Kill())
	if p.cmd.Wait(); err != nil { //nolint:errcheck // it was killed
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); attached(t, "s1") > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a program is left")
		}
	}
}

// gNMI's counters of a port are of all its packets: those that the kernel forwards, and those that go up.
func TestKernelDatapathCounters(t *testing.T) {
	systemtest.Only(t)
	ns := porttest.Enter(t)
	ns.Veth(t, "h1", "s1", 1500)
	ns.Veth(t, "h2", "s2", 1500)
	kernelOrSkip(t, "s1", "")
	h1, h2 := newEndpoint(t, "h1"), newEndpoint(t, "h2")
	h1.send(rocePacket(100, 0xC001)) // before the switch: not counted
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch", "--datapath", "kernel"}, "s1", "s2")
	program, info := program(t, "tm")
	p.push(t, program, info)
	for i := range 30 {
		f := make([]byte, 80)
		if f[1] = 2; i%3 == 0 {
			f[4] = 1 // recirculates once
		}
		h1.send(f)
	}
	h2.receive(30)
	for name, want := range map[[2]string]uint64{
		{"s1", "in-pkts"}: 30, {"s1", "in-octets"}: 2400, {"s1", "out-pkts"}: 0, {"s2", "in-pkts"}: 0, {"s2", "out-pkts"}: 30, {"s2", "out-octets"}: 3000,
	} {
		path := &gnmi.Path{Elem: []*gnmi.PathElem{{Name: "interfaces"}, {Name: "interface", Key: map[string]string{"name": name[0]}},
			{Name: "state"}, {Name: "counters"}, {Name: name[1]}}}
		r, err := gnmi.NewGNMIClient(p.conn).Get(t.Context(), &gnmi.GetRequest{Path: []*gnmi.Path{path}, Encoding: gnmi.Encoding_PROTO})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.GetNotification()[0].GetUpdate()[0].GetVal().GetUintVal(); got != want {
			t.Errorf("%s of %s: %d, not %d", name[1], name[0], got, want)
		}
	}
}
