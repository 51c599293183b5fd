//go:build linux

package ebpf_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// TestQueueSeen: packets, the kernel's and the interpreter's, that are sent faster than the queue below lets them go
// find as many before them, and as much time, until the queue holds no more. A port whose queue has no rate has none.
func TestQueueSeen(t *testing.T) {
	systemtest.Only(t)
	sw := interp.NewSwitch(read(t, "../process/testdata/tm.json"), interp.Config{QueuesPerPort: 8})
	k, err := ebpf.Load(sw, ebpf.Config{QueuesPerPort: 8, Stopped: true, Queues: map[uint32]ebpf.Queue{1: {Rate: 1e6, Limit: 1000}}})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skipf("eBPF programs cannot be loaded here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for port, index := range map[uint32]uint32{1: 1, 2: 1, 3: 7} {
		if err := k.SetPort(port, index); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.SetPort(2, 1); err != nil { // what comes by interface 1 comes by port 2
		t.Fatal(err)
	}
	type seen struct{ Enq, Deq, Delta uint32 }
	send := func(port byte) seen {
		t.Helper()
		packet := make([]byte, 80) // 100 bytes when it leaves: 100 us
		packet[1] = port
		r, err := k.Run(packet)
		if err != nil || r.Fate != ebpf.FateForwarded || len(r.Data) != 100 {
			t.Fatalf("%+v: %v", r, err)
		}
		word := func(at int) uint32 { return binary.BigEndian.Uint32(r.Data[at:]) }
		return seen{word(12), word(16), word(24)}
	}
	for i := range uint32(14) {
		n := min(i, 10)
		if ns, packets := k.Waits(2, 0); packets != n || ns != 100_000*int64(n) {
			t.Errorf("packet %d of the interpreter's would wait %d ns behind %d", i, ns, packets)
		}
		if i == 5 {
			k.Sent(2, 0, 100)
			continue
		}
		if diff := cmp.Diff(seen{n, n, 100 * n}, send(2)); diff != "" {
			t.Errorf("packet %d: %s", i, diff)
		}
		if diff := cmp.Diff(seen{}, send(3)); diff != "" {
			t.Errorf("packet %d by the other port: %s", i, diff)
		}
	}
}

// TestQueuesRead: the rates are those that links were given.
func TestQueuesRead(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	ns.Veth(t, "c", "d", 1500)
	index := func(name string) int {
		l, err := netlink.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		return l.Attrs().Index
	}
	root := netlink.MakeHandle(5, 0)
	at := func(i int) netlink.QdiscAttrs {
		return netlink.QdiscAttrs{LinkIndex: i, Handle: root, Parent: netlink.HANDLE_ROOT}
	}
	a, c := index("a"), index("c")
	tbf := &netlink.Tbf{QdiscAttrs: at(a), Rate: 1e6, Buffer: 1e6, Limit: 30_000}
	htb := netlink.NewHtb(at(c))
	class := netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: c, Handle: netlink.MakeHandle(5, 1), Parent: root}, netlink.HtbClassAttrs{Rate: 4e6})
	for _, err := range []error{netlink.QdiscAdd(tbf), netlink.QdiscAdd(htb), netlink.ClassAdd(class)} {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
			t.Skipf("the kernel has not these queueing disciplines: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	q, err := ebpf.OpenQueues()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	got, err := q.Read()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[uint32]ebpf.Queue{uint32(a): {1e6, 30_000}, uint32(c): {5e5, 1_514_000}}, got); diff != "" {
		t.Error(diff)
	}
}

// TestOwnProgramMarks: of hosts' packets that wait behind more than the profile's 100 to 400, all are marked, and none
// behind fewer. Between, chance decides, which is the interpreter's here.
func TestOwnProgramMarks(t *testing.T) {
	sw := own(t)
	load(t, sw).Close() // or skips
	k, err := ebpf.Load(sw, ebpf.Config{QueuesPerPort: 8, Stopped: true, Queues: map[uint32]ebpf.Queue{1: {Rate: 1e6, Limit: 1e6}}})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for port := range uint32(32) {
		if err := k.SetPort(port, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 500 {
		data := roce(10<<24|5, 0xc005)
		r, err := k.Run(data)
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Fate >= ebpf.FateUp:
			k.Sent(5, 0, len(data))
			if i <= 100 || i >= 400 {
				t.Errorf("packet %d goes up: %s", i, k.Constructs()[r.Fate-ebpf.FateUp])
			}
		case r.Fate != ebpf.FateForwarded || r.Port != 5:
			t.Fatalf("packet %d: %+v", i, r)
		case r.Data[15]&3 == 3 != (i >= 400):
			t.Errorf("packet %d has ECN %d", i, r.Data[15]&3)
		}
	}
}
