//go:build linux

package ebpf_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

const holderEnv = "ETHEREAL_TEST_HOLDER"

// TestHolder is the other process of TestClsactKilled: it has a program take all packets of an interface.
func TestHolder(t *testing.T) {
	name := os.Getenv(holderEnv)
	if name == "" {
		t.Skip("TestClsactKilled starts it")
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ebpf.Attach(i.Index, ebpf.HookClsact)
	if err != nil {
		t.Fatal(err)
	}
	sw := interp.NewSwitch(read(t, "../process/testdata/lpm.json"), interp.Config{})
	k, err := ebpf.Load(sw, ebpf.Config{Mark: ebpf.Mark})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Run(k); err != nil {
		t.Fatal(err)
	}
	fmt.Println("holds")
	os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // until it is killed
	t.Log(h, k)
}

// TestClsactKilled: a filter, which the kernel keeps, lets all packets pass once its process is killed, and the next
// process takes its place.
func TestClsactKilled(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	load(t, interp.NewSwitch(read(t, "../process/testdata/lpm.json"), interp.Config{})) // or skips
	b, err := net.InterfaceByName("b")
	if err != nil {
		t.Fatal(err)
	}
	out, err := port.OpenInterface("a", port.InterfaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the test is over
	for range 2 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHolder$")
		cmd.Env = append(os.Environ(), holderEnv+"=b")
		stdin, err1 := cmd.StdinPipe()
		stdout, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "holds"; {
			t.Log(lines.Text())
		}
		passed := countAfter(t, b.Index)
		frame := make([]byte, 60)
		frame[12] = 0x88 // of no protocol
		send := func() {
			t.Helper()
			if out.Send([][]byte{frame}) != 1 {
				t.Fatal("not sent")
			}
		}
		send()
		if n := passed(); n != 0 {
			t.Errorf("%d packets pass the program of a process that lives", n)
		}
		filters, err := netlink.FilterList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: b.Index}}, netlink.HANDLE_MIN_INGRESS)
		if err != nil || len(filters) != 2 {
			t.Errorf("%d filters with this test's: %v", len(filters), err)
		}
		if err := errors.Join(cmd.Process.Kill(), stdin.Close()); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() //nolint:errcheck // it was killed
		for deadline := time.Now().Add(time.Minute); passed() == 0; time.Sleep(time.Millisecond) {
			if send(); time.Now().After(deadline) {
				t.Fatal("a program is left")
			}
		}
	}
}

// TestTwoSwitches: the second data path on an interface is refused, until the first has ended.
func TestTwoSwitches(t *testing.T) {
	ns := porttest.Enter(t)
	ns.Veth(t, "a", "b", 1500)
	load(t, interp.NewSwitch(read(t, "../process/testdata/lpm.json"), interp.Config{})) // or skips
	b, err := net.InterfaceByName("b")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		first, err := ebpf.Attach(b.Index, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []ebpf.HookKind{"", ebpf.HookClsact} {
			if _, err := ebpf.Attach(b.Index, kind); !errors.Is(err, ebpf.ErrTaken) {
				t.Errorf("a second one by hook %q: %v, want ErrTaken", kind, err)
			}
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// countAfter counts the packets that an interface's filters have let pass, in the sender's thread.
func countAfter(t *testing.T, index int) func() uint64 {
	t.Helper()
	m, err := bpf.NewMap(&bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() }) //nolint:errcheck // nothing is pending
	p, err := bpf.NewProgram(&bpf.ProgramSpec{Type: bpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.StoreImm(asm.R10, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, -4), asm.LoadMapPtr(asm.R1, m.FD()), asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1), asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() }) //nolint:errcheck // nothing is pending
	err = netlink.FilterReplace(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 0xffff, Protocol: unix.ETH_P_ALL},
		Fd:          p.FD(), Name: "count", DirectAction: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() (n uint64) {
		if err := m.Lookup(uint32(0), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}
