package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/export"
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

// TestExportLinux builds a fabric of Linux routers in namespaces from the files of `ethereal export linux` alone. Packets
// of every source port that stands for a label arrive, without the outer header, and captures at the top switches say
// that each went by its label's and by no other.
func TestExportLinux(t *testing.T) {
	for _, program := range []string{"ip", "nsenter", "sysctl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not on the PATH")
		}
	}
	if !inNamespaces(t) {
		return
	}
	p, pids := newRouters(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	p.write("fabric.yaml", "kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: 2\n")
	file := filepath.Join(p.dir, "fabric.yaml")
	if code, _, text := call(t, &fake{}, "export", "linux", "--fabric", file, "--dir", p.dir); code != exitOK {
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
	tops := map[fabric.NodeID]func() []captured{}
	for i := range p.f.Cores() {
		tops[p.f.CoreID(i)] = captureInner(t, pids[p.f.CoreID(i)])
	}
	src, dst := fabric.NodeID(0), fabric.NodeID(p.f.Hosts()-1)
	to := &net.UDPAddr{IP: p.f.HostAddr6(dst).AsSlice(), Port: 4791}
	var receiver *net.UDPConn
	inNet(t, pids[dst], func() (err error) { receiver, err = net.ListenUDP("udp6", to); return err })
	defer receiver.Close() //nolint:errcheck // the test is over
	const packets = 20
	for _, path := range plan.Paths(src, dst) {
		inNet(t, pids[src], func() error {
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
		receiver.SetReadDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // it is open
		for n := range packets {
			_, from, err := receiver.ReadFromUDPAddrPort(make([]byte, 100))
			if err != nil || from.Port() != path.Port {
				t.Fatalf("label %d: %d packets of %d arrived: %v, %v", path.Label, n, packets, from, err)
			}
		}
		for top, read := range tops {
			want := 0
			if path.Nodes[len(path.Nodes)/2-1] == top {
				want = packets
			}
			got := read()
			rest := path.Nodes[len(path.Nodes)/2-1:]
			for _, x := range got { // the kernel may have shifted the list in what the capture holds
				if x.port != path.Port || x.outer != plan.SID(rest...) && x.outer != plan.SID(rest[1:]...) {
					t.Errorf("label %d: %s had %v port %d", path.Label, p.f.Name(top), x.outer, x.port)
				}
			}
			if len(got) != want {
				t.Errorf("label %d: %s had %d packets, want %d", path.Label, p.f.Name(top), len(got), want)
			}
		}
	}
}
