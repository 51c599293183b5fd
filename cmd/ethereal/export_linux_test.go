package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/export"
	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// inNet carries something out in the network namespace of a process.
func inNet(t *testing.T, pid int, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with its goroutine
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd) //nolint:errcheck // only read
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// newRouters makes a network namespace for each node of a fabric, with its ports as eth1, eth2, ... It returns the
// processes that keep them.
func newRouters(t *testing.T, spec fabric.Spec) (p *plant, pids []int) {
	t.Helper()
	p = newRack(t, spec, "")
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil { // ip and nsenter look processes up there
		t.Skipf("no proc of the namespace's own: %v", err)
	}
	for i := range p.f.Nodes() {
		id := fabric.NodeID(i)
		cmd := exec.Command("sleep", "infinity")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if err := cmd.Start(); err != nil {
			t.Skipf("no namespace for %s: %v", p.f.Name(id), err)
		}
		x := &running{cmd: cmd, done: make(chan struct{})}
		go func() { defer close(x.done); cmd.Wait() }() //nolint:errcheck // it is killed
		p.procs["namespace of "+p.f.Name(id)] = x
		pids = append(pids, cmd.Process.Pid)
		script := "ip link set lo up; echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6"
		for port := fabric.PortNo(1); int(port) <= p.f.Node(id).Ports(); port++ {
			name := live.InterfaceName(p.f, fabric.End{Node: id, Port: port})
			shell(t, 0, fmt.Sprintf("ip link set %s netns %d name %s", name, cmd.Process.Pid, export.Interface(port)))
			script += fmt.Sprintf("; ip link set %s up", export.Interface(port))
		}
		shell(t, cmd.Process.Pid, script)
	}
	return p, pids
}

// shell carries a script out in the namespace of a process; 0: here.
func shell(t *testing.T, pid int, script string) {
	t.Helper()
	args := []string{"sh", "-ec", script}
	if pid != 0 {
		args = append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", pid)}, args...)
	}
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// captured is a packet that a capture saw: an outer header's destination, and the inner source port.
type captured struct {
	outer netip.Addr
	port  uint16
}

// captureInner opens a capture of IPv6 in IPv6 in a namespace, and returns what reads the packets so far.
func captureInner(t *testing.T, pid int) func() []captured {
	t.Helper()
	var fd int
	inNet(t, pid, func() (err error) {
		const ipv6 = unix.ETH_P_IPV6<<8&0xff00 | unix.ETH_P_IPV6>>8
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, ipv6)
		if err == nil { // room for all packets of a collective; without, some are not seen
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) //nolint:errcheck // root may
		}
		return err
	})
	t.Cleanup(func() { unix.Close(fd) }) //nolint:errcheck // only read
	return func() (out []captured) {
		buf := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return out
			}
			link, ok := from.(*unix.SockaddrLinklayer)
			const headers = 40 + 40 + 8
			if !ok || link.Pkttype == unix.PACKET_OUTGOING || n < headers ||
				buf[6] != unix.IPPROTO_IPV6 || buf[46] != unix.IPPROTO_UDP {
				continue
			}
			out = append(out, captured{netip.AddrFrom16([16]byte(buf[24:40])), binary.BigEndian.Uint16(buf[80:])})
		}
	}
}

// TestExportLinux builds a fabric of Linux routers in namespaces from the files of `ethereal export linux` alone.
// Packets of every source port that stands for a label arrive, without the outer header, and captures at the top
// switches say that each went by its label's and by no other. Then a collective crosses it.
func TestExportLinux(t *testing.T) {
	needPrograms(t, "ip", "nsenter", "sysctl")
	if !inNamespaces(t) {
		return
	}
	l := newExported(t, "export", "linux")
	l.labelsChoose()
	l.collective()
}

// TestExportFRR is TestExportLinux with FRR for the switches: its own daemons read the frr.conf of `ethereal export
// frr` and make the routes; a switch's own uSID is of `ip`. FRR_PREFIX names an FRR in another place than Debian's.
func TestExportFRR(t *testing.T) {
	systemtest.Only(t)
	needPrograms(t, "ip", "nsenter", "sysctl")
	if os.Getenv("ETHEREAL_EXPORTED") == "" {
		t.Skip("starts eight daemons of FRR: set ETHEREAL_EXPORTED=1")
	}
	frr := findFRR(t)
	if !inNamespaces(t) {
		return
	}
	l := newExported(t, "export", "frr")
	for i := l.p.f.Hosts(); i < l.p.f.Nodes(); i++ {
		frr.start(l, fabric.NodeID(i))
	}
	for i := l.p.f.Hosts(); i < l.p.f.Nodes(); i++ {
		frr.await(l, fabric.NodeID(i))
	}
	l.labelsChoose()
	l.collective()
}

func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	systemtest.Only(t)
	for _, program := range names {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not on the PATH")
		}
	}
}

// exported is a fabric of namespaces that the files of an export make routers and hosts.
type exported struct {
	t    *testing.T
	p    *plant
	pids []int
	plan *export.Plan
	tops map[fabric.NodeID]func() []captured // what each top switch got since it was last asked
}

// newExported exports two ToRs, two spines and four hosts, and carries out on each what is for sysctl and for ip.
func newExported(t *testing.T, command ...string) *exported {
	t.Helper()
	p, pids := newRouters(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	p.write("fabric.yaml", "kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: 2\n")
	file := filepath.Join(p.dir, "fabric.yaml")
	if code, _, text := call(t, &fake{}, append(command, "--fabric", file, "--dir", p.dir)...); code != exitOK {
		t.Fatal(text)
	}
	for i, pid := range pids {
		name := filepath.Join(p.dir, p.f.Name(fabric.NodeID(i)))
		shell(t, pid, "sysctl -q -p "+name+".sysctl")
		shell(t, pid, "ip -6 -batch "+name+".ip")
	}
	plan, err := export.New(p.f)
	if err != nil {
		t.Fatal(err)
	}
	l := &exported{t, p, pids, plan, map[fabric.NodeID]func() []captured{}}
	for i := range p.f.Cores() {
		l.tops[p.f.CoreID(i)] = captureInner(t, pids[p.f.CoreID(i)])
	}
	return l
}

// labelsChoose sends packets of every label's source port from the first host to the last.
func (l *exported) labelsChoose() {
	t, p := l.t, l.p
	src, dst := fabric.NodeID(0), fabric.NodeID(p.f.Hosts()-1)
	to := &net.UDPAddr{IP: p.f.HostAddr6(dst).AsSlice(), Port: 4791}
	var receiver *net.UDPConn
	inNet(t, l.pids[dst], func() (err error) { receiver, err = net.ListenUDP("udp6", to); return err })
	defer receiver.Close() //nolint:errcheck // the packets have come
	const packets = 20
	for _, path := range l.plan.Paths(src, dst) {
		inNet(t, l.pids[src], func() error {
			c, err := net.DialUDP("udp6", &net.UDPAddr{IP: p.f.HostAddr6(src).AsSlice(), Port: int(path.Port)}, to)
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // the packets are sent
			for range packets {
				if _, err := c.Write([]byte("RoCEv2 in the test's place")); err != nil {
					return err
				}
			}
			return nil
		})
		receiver.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // it is open
		for n := range packets {
			_, from, err := receiver.ReadFromUDPAddrPort(make([]byte, 100))
			if err != nil || from.Port() != path.Port {
				t.Fatalf("label %d: %d packets of %d arrived: %v, %v", path.Label, n, packets, from, err)
			}
		}
		for top := range l.tops {
			want := map[uint16]int{}
			if path.Nodes[1] == top {
				want[path.Port] = packets
			}
			if got := l.crossed(top); !maps.Equal(got, want) {
				t.Errorf("label %d: %s had packets by port %v, want %v", path.Label, p.f.Name(top), got, want)
			}
		}
	}
}

// crossed counts by source port what a top switch got since the last time. All of it is to be of paths that cross it.
func (l *exported) crossed(top fabric.NodeID) map[uint16]int {
	may := map[captured]bool{}
	for src := range l.p.f.Hosts() {
		for dst := range l.p.f.Hosts() {
			for _, path := range l.plan.Paths(fabric.NodeID(src), fabric.NodeID(dst)) {
				if path.Nodes[1] != top {
					continue
				}
				// The kernel may have shifted the list in what the capture holds.
				for _, rest := range [][]fabric.NodeID{path.Nodes[1:], path.Nodes[2:]} {
					may[captured{fabric.SID(rest...), path.Port}] = true
				}
			}
		}
	}
	out := map[uint16]int{}
	for _, x := range l.tops[top]() {
		if !may[x] {
			l.t.Errorf("%s had %v port %d", l.p.f.Name(top), x.outer, x.port)
		}
		out[x.port]++
	}
	return out
}

// collective has the soft endpoints of all hosts play an all-to-all. An endpoint is to its host's kernel a NIC on a
// cable: the kernel takes what comes by it as any packet, finds the rule of its source port, and puts the outer header
// on.
func (l *exported) collective() {
	t, p := l.t, l.p
	if os.Getenv("ETHEREAL_EXPORTED") == "" { // it failed once in seven on a machine with six other programs
		t.Log("no collective: it is for a quiet machine; set ETHEREAL_EXPORTED=1")
		return
	}
	dir, err := os.MkdirTemp("", "hosts") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var sockets []string
	for h := range p.f.Hosts() {
		id := fabric.NodeID(h)
		mac := func(id fabric.NodeID) net.HardwareAddr { m := p.f.MAC(id); return m[:] }
		addr := p.f.HostAddr6(id)
		shell(t, l.pids[h], fmt.Sprintf(`
			ip link add nic0 mtu 9000 address %v type veth peer name nic1 mtu 9000 address %v
			echo 1 > /proc/sys/net/ipv6/conf/nic0/disable_ipv6 # what the endpoint is sent the kernel leaves to it
			ip link set nic0 up; ip link set nic1 up
			ip -6 addr del %v/128 dev eth1
			ip -6 route replace %v/128 dev nic1 table local
			ip -6 neigh replace %v lladdr %v dev nic1 nud permanent
			ip sr tunsrc set %v`, mac(id), mac(p.f.ToROf(id)), addr, addr, addr, mac(id), addr))
		socket := filepath.Join(dir, p.f.Name(id))
		sockets = append(sockets, socket)
		p.start(p.f.Name(id), "nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", l.pids[h]),
			os.Getenv("ETHEREAL_TEST_PROGRAM"), "host", "agent", "--fabric", "fabric.yaml", "--host", p.f.Name(id),
			"--interface", "nic0", "--listen-socket", "unix:"+socket)
		p.until(time.Minute, p.f.Name(id)+" listens", func() error { _, err := os.Stat(socket); return err })
	}
	s, err := scenario.Parse("exported.yaml", []byte(`
name: exported
fabric:
  kind: leaf-spine
  tors: 2
  spines: 2
  hosts_per_tor: 2
  host_link: {rate: 50Mb/s, delay: 1us}
  tor_uplink: {rate: 50Mb/s, delay: 1us}
host: {payload: 1024B, rto: 500ms, congestion_control: none, receiver: go-back-n, ipv6: true}
collectives: [{kind: all-to-all, bytes: 400KB}]
schemes: [ethereal]
failures: [{name: healthy}]
deadline: 60s
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	session, err := coordinator.Connect(t.Context(), sockets)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close() //nolint:errcheck // the run is over
	if err := etherealtest.Retry(t, 3, func() error {
		result, err := session.Run(t.Context(), runs[0], coordinator.Options{Clock: monotonic.Now, Lead: 5 * time.Second})
		if err == nil && !result.Finished {
			err = errors.New("the collective did not end within its deadline")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	stats, err := session.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent := make([]uint64, len(l.tops))
	for _, x := range stats {
		for label := range sent {
			sent[label] += x.LabelBytes[label]
		}
	}
	for _, path := range l.plan.Paths(0, fabric.NodeID(p.f.Hosts()-1)) {
		for top := range l.tops {
			if top == path.Nodes[1] {
				n := l.crossed(top)
				if n[path.Port] == 0 || len(n) != 1 || sent[path.Label] == 0 {
					t.Errorf("label %d: %d bytes were sent, %s had %v", path.Label, sent[path.Label], p.f.Name(top), n)
				}
				t.Logf("label %d: %d bytes were sent, %s had %d packets of it and none of others",
					path.Label, sent[path.Label], p.f.Name(top), n[path.Port])
			}
		}
	}
}
