//go:build linux

package process_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// slowOrders are the first bytes of packets that tm.p4 does in the interpreter only: a header order_t.
var slowOrders = map[string][]byte{
	"packet-in":     {0, 255, 0, 0, 0, 0, 0, 0},
	"clones":        {0, 4, 0, 0, 0, 1, 0, 0},
	"recirculation": {0, 4, 0, 0, 9, 0, 0, 0},
	"multicast":     {0, 0, 0, 1, 0, 0, 0, 0},
}

// TestSlowPathFlooded sends packets that the kernel forwards while others, of whose kinds the kernel can do
// none, come by another port as fast as they can. Its figures are for -v: -attack.time and -attack.rate.
func TestSlowPathFlooded(t *testing.T) {
	systemtest.Only(t)
	ns := porttest.Enter(t)
	kernelOrSkip(t, "lo", "")
	for _, n := range []string{"1", "2", "3", "4"} {
		ns.Veth(t, "h"+n, "s"+n, 1500)
	}
	p := startSwitch(t, ns, []string{etherealtest.Binary(t), "switch", "--datapath", "kernel"}, "s1", "s2", "s3", "s4")
	program, info := program(t, "tm")
	p.push(t, program, info)
	replicas := []*p4.Replica{{PortKind: &p4.Replica_Port{Port: []byte{4}}, Instance: 1}, {PortKind: &p4.Replica_Port{Port: []byte{4}}, Instance: 2}}
	p.write(t,
		&p4.Update{Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{SessionId: 1, Replicas: replicas}}}}}},
		&p4.Update{Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_MulticastGroupEntry{MulticastGroupEntry: &p4.MulticastGroupEntry{MulticastGroupId: 1, Replicas: replicas}}}}}})
	in, err := port.OpenInterface("h1", port.InterfaceOptions{SendBuffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the test is over
	out, err := port.OpenInterface("h2", port.InterfaceOptions{Slots: 8192})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the test is over
	defer port.LockThread()()
	unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -15) //nolint:errcheck // then it is less even
	packet := make([]byte, 256)
	packet[1] = 2
	quiet := true
	for _, name := range append([]string{"quiet"}, slices.Sorted(maps.Keys(slowOrders))...) {
		stop := func() string { return "" }
		if !quiet {
			stop = startAttack(t, name)
		}
		before, fromHosts := packetsOf(t, "h3"), packetsOf(t, "h4")
		begin := time.Now()
		var m measurement
		m.pace(in, out, packet, *attackRate, *attackTime)
		seconds := time.Since(begin).Seconds()
		flood := packetsOf(t, "h3").TxPackets - before.TxPackets
		t.Logf("%-14s %d packets/s for %.1f s: p50 %v p99 %v, lost %d of %d; beside %.0f packets/s for the slow path, which sent %.0f/s",
			name, *attackRate, seconds, m.p50, m.p99, m.sent-m.received, m.sent, float64(flood)/seconds,
			float64(packetsOf(t, "h4").RxPackets-fromHosts.RxPackets)/seconds)
		stop()
		if m.received < m.sent/2 || !quiet && flood == 0 || *attackStrict && m.received < m.sent {
			t.Errorf("%s: %d of %d packets came through beside %d for the slow path", name, m.received, m.sent, flood)
		}
		quiet = false
	}
}

// packetsOf is what an interface has counted.
func packetsOf(t *testing.T, name string) *netlink.LinkStatistics {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Statistics
}

// floodSlowPath sends without end.
func floodSlowPath(t *testing.T, order []byte) {
	h, err := port.OpenInterface("h3", port.InterfaceOptions{SendBuffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	frame := append(slices.Clone(order), make([]byte, 120)...)
	frames := slices.Repeat([][]byte{frame}, 64)
	for {
		h.Send(frames)
	}
}
