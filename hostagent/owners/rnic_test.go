//go:build linux

package owners

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

const rnicDir = "../verbs/rnic/"

// patient has queue pairs wait for their labels however busy this machine is.
const patient = "-DPATIENCE_MS=60000"

// buildRNIC builds libethereal-rnic, what stands in for a device, and a program that has both preloaded. Both are built
// with the flags.
func buildRNIC(t *testing.T, flags ...string) (preload, program string) {
	t.Helper()
	tmp := t.TempDir()
	lib, device := filepath.Join(tmp, "libethereal-rnic.so"), filepath.Join(tmp, "device.so")
	program = filepath.Join(tmp, "program")
	compileDevice(t, device, flags...)
	compileRNIC(t, lib, flags...)
	compile(t, "-o", program, rnicDir+"testdata/program.c", device, "-libverbs")
	return lib + ":" + device, program
}

// unexpected says whether err is more than that this machine is busy: what is late is asked for on.
func unexpected(err error) bool { return err != nil && !errors.Is(err, errAnswerTimeout) }

// compileDevice builds what stands in for a device.
func compileDevice(t *testing.T, lib string, flags ...string) {
	t.Helper()
	compile(t, append(flags, "-fPIC", "-shared", "-Wl,--version-script="+rnicDir+"testdata/device.map",
		"-o", lib, rnicDir+"testdata/device.c")...)
}

// compileRNIC builds libethereal-rnic.
func compileRNIC(t *testing.T, lib string, flags ...string) {
	t.Helper()
	compile(t, append(flags, "-fPIC", "-shared", "-Wl,--version-script="+rnicDir+"exports.map", "-o", lib,
		rnicDir+"rnic.c", rnicDir+"agent.c", "-Wl,--no-as-needed", "-libverbs", "-lpthread")...)
}

// compile calls the C compiler.
func compile(t *testing.T, args ...string) {
	t.Helper()
	cc := systemtest.Program(t, "cc", "", "apt-get install build-essential")
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("no infiniband/verbs.h (Debian: libibverbs-dev)")
	}
	args = append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers"}, args...)
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// rnicProgram is a running testdata/program.c.
type rnicProgram struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Scanner
	record string
}

func runRNIC(t *testing.T, preload, program, socket string, env ...string) *rnicProgram {
	t.Helper()
	p := &rnicProgram{t: t, record: filepath.Join(t.TempDir(), "record")}
	c := exec.Command(program)
	if os.Getenv("ETHEREAL_VALGRIND") != "" {
		c = exec.Command("valgrind", "-q", "--error-exitcode=9", "--leak-check=full",
			"--errors-for-leak-kinds=definite", "--show-leak-kinds=definite", program)
	}
	c.Env = append(os.Environ(),
		"LD_PRELOAD="+preload, "DEVICE_ALONE=1", "DEVICE_RECORD="+p.record, "ETHEREAL_OWNERS=unix:"+socket)
	c.Env, c.Stderr = append(c.Env, env...), os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewScanner(out)
	t.Cleanup(func() {
		in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("the program: %v", err)
		}
	})
	return p
}

// do has the program carry lines out.
func (p *rnicProgram) do(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		fmt.Fprintln(p.in, line)
		if !p.out.Scan() || p.out.Text() != "0" {
			p.t.Fatalf("%s: %q %v", line, p.out.Text(), p.out.Err())
		}
	}
}

// connect has the program bring a queue pair to host 15 to RTS.
func (p *rnicProgram) connect(n int) {
	p.t.Helper()
	p.do(fmt.Sprintf("connect %d ::ffff:10.3.1.3 %d", n, 100+n), fmt.Sprintf("start %d", n))
}

// labels returns what the device was given last, by queue pair, and how often it was given anything.
func (p *rnicProgram) labels() (last map[uint32]fabric.Label, calls int) {
	p.t.Helper()
	text, err := os.ReadFile(p.record)
	if err != nil {
		p.t.Fatal(err)
	}
	last = map[uint32]fabric.Label{}
	for line := range strings.Lines(string(text)) {
		var what string
		var n, value uint32
		if _, err := fmt.Sscan(line, &what, &n, &value); err != nil {
			p.t.Fatalf("%q: %v", line, err)
		}
		calls++
		if what == "rtr" && value == 77 { // the program's own
			delete(last, n)
			continue
		}
		if what == "rtr" { // as drivers make a source port of it
			value = 0xC000 | (value&0x3fff ^ value>>14&0x3f)
		}
		if value < 0xC000 || value > math.MaxUint16 {
			p.t.Fatalf("%q: source port %d", line, value)
		}
		last[n] = fabric.Label(value & 0x3fff)
	}
	return last, calls
}

// agrees waits until the device has the labels that the agent has dealt to n queue pairs.
func (p *rnicProgram) agrees(a *agent, n int) []labeller.Assignment {
	p.t.Helper()
	var as []labeller.Assignment
	until(p.t, fmt.Sprintf("agent and device agree on %d queue pairs", n), func() bool {
		as = slices.DeleteFunc(slices.Clone(a.Adopted()), func(x labeller.Assignment) bool { return x.QP.Num >= 200 }) // the child's
		last, _ := p.labels()
		for _, x := range as {
			if l, ok := last[x.QP.Num-100]; !ok || l != x.Label {
				return false
			}
		}
		return len(as) == n
	})
	return as
}

// TestRNICLibrary: libethereal-rnic labels queue pairs of a program in C that knows nothing of it, field by field as a
// device sees it: flow labels at RTR, source ports after; through flips, restarts of the agent, time-outs and forks.
func TestRNICLibrary(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	link, err := f.LinkByName("agg0-core1") // label 1
	if err != nil {
		t.Fatal(err)
	}
	preload, program := buildRNIC(t, patient)
	socket := filepath.Join(t.TempDir(), "s")
	a := start(t, f, socket, nil, nil)
	defer func() { a.stop() }()
	p := runRNIC(t, preload, program, socket)
	per := map[fabric.Label]int{}
	for n := 1; n <= 8; n++ {
		p.connect(n)
	}
	for _, x := range p.agrees(a, 8) {
		per[x.Label]++
	}
	if _, calls := p.labels(); calls != 8 || len(per) != 4 || per[0] != 2 || per[1] != 2 || per[2] != 2 || per[3] != 2 {
		t.Errorf("%d calls, labels %v; want 8, and 2 of each", calls, per)
	}

	down := &statepb.Update{Instance: "c", Epoch: 1, Snapshot: true, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}}
	if err := a.Update(down); unexpected(err) {
		t.Fatal(err)
	}
	for _, x := range p.agrees(a, 8) {
		if x.Label == 1 {
			t.Errorf("%v is on a dead path", x)
		}
	}

	// The agent is started again: nothing is labelled by that.
	_, before := p.labels()
	was, homes := a.Adopted(), a.Homes()
	a.stop()
	a = start(t, f, socket, down, homes)
	if got := p.agrees(a, 8); !slices.Equal(got, was) {
		t.Errorf("after a restart %v, before %v", got, was)
	}
	if _, calls := p.labels(); calls != before {
		t.Errorf("%d calls by a restart", calls-before)
	}
	if err := a.Update(&statepb.Update{Instance: "c", Epoch: 2, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 2, Up: true}}}); unexpected(err) {
		t.Fatal(err)
	}
	per = map[fabric.Label]int{}
	for _, x := range p.agrees(a, 8) {
		per[x.Label]++
	}
	if per[1] != 2 {
		t.Errorf("queue pairs did not return home: %v", per)
	}

	// Its retries run out: the path is reported and left.
	x := p.agrees(a, 8)[3]
	p.do(fmt.Sprintf("poll %d", x.QP.Num-100))
	if fs := <-a.failed; len(fs) != 1 || fs[0].Label != x.Label || fs[0].Dst != 15 {
		t.Errorf("reported %+v", fs)
	}
	if err := <-a.timedOut; unexpected(err) {
		t.Errorf("the time-out: %v", err)
	}
	if slices.Contains(p.agrees(a, 8), x) {
		t.Errorf("%v is where it was", x)
	}

	// A child of fork has a stream of its own, and the parent keeps its.
	p.do("fork", "destroy 1", "reset 2")
	p.connect(9)
	p.agrees(a, 9) // what is no more is kept for a while

	// Without an agent programs go on; the next one learns of all that are left.
	a.stop()
	p.connect(10)
	if last, _ := p.labels(); len(last) == 0 {
		t.Error("no labels")
	} else if l, ok := last[10]; ok {
		t.Errorf("label %d of nobody", l)
	}
	a = start(t, f, socket, down, nil)
	p.agrees(a, 8)
}

// TestRNICLibraryLoaded: a program that loads the library at run time, as NCCL does, reaches what is below it, and its
// queue pairs are labelled and moved.
func TestRNICLibraryLoaded(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	lib, below := filepath.Join(tmp, "libethereal-rnic.so"), filepath.Join(tmp, "libibverbs.so.1")
	program := filepath.Join(tmp, "program")
	compileDevice(t, below, "-Wl,-soname,libibverbs.so.1")
	compileRNIC(t, lib, patient)
	compile(t, "-DLOADED", "-o", program, rnicDir+"testdata/program.c")
	if err := os.Symlink(below, filepath.Join(tmp, "libmlx5.so.1")); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(tmp, "s")
	a := start(t, f, socket, nil, nil)
	defer a.stop()
	p := runRNIC(t, "", program, socket, "LD_LIBRARY_PATH="+tmp, "NCCL_IBVERBS_LIB="+lib)
	for n := 1; n <= 4; n++ {
		p.connect(n)
	}
	x := p.agrees(a, 4)[2]
	p.do(fmt.Sprintf("poll %d", x.QP.Num-100))
	if err := <-a.timedOut; unexpected(err) {
		t.Errorf("the time-out: %v", err)
	}
	if slices.Contains(p.agrees(a, 4), x) {
		t.Errorf("%v is where it was", x)
	}
	if _, calls := p.labels(); calls != 5 {
		t.Errorf("%d calls, want 4 queue pairs' and a flip", calls)
	}
	p.do("destroy 1")
}

// TestRNICLibrarySilent: an agent that says nothing is waited for a few times only.
func TestRNICLibrarySilent(t *testing.T) {
	preload, program := buildRNIC(t)
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	p := runRNIC(t, preload, program, socket)
	began := time.Now()
	for n := range 90 {
		p.connect(n)
	}
	t.Logf("90 queue pairs took %v", time.Since(began)) // 18 s if each waited
	if last, _ := p.labels(); len(last) != 0 {
		t.Errorf("labels of nobody: %v", last)
	}
}

// TestRNICLibraryBroadcom: a queue pair of a bnxt_re device is moved by the call of Broadcom's own provider.
func TestRNICLibraryBroadcom(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	preload, program := buildRNIC(t, patient, "-DBNXT")
	socket := filepath.Join(t.TempDir(), "s")
	a := start(t, f, socket, nil, nil)
	defer a.stop()
	p := runRNIC(t, preload, program, socket)
	p.connect(1)
	x := p.agrees(a, 1)[0]
	p.do("poll 1")
	if err := <-a.timedOut; unexpected(err) {
		t.Errorf("the time-out: %v", err)
	}
	if y := p.agrees(a, 1)[0]; y.Label == x.Label {
		t.Errorf("%v is where it was", y)
	}
	if _, calls := p.labels(); calls != 2 {
		t.Errorf("%d calls, want a connection's and a flip", calls)
	}
}

// TestRNICLibraryFixed: a device that cannot change a port keeps it, and the agent learns why.
func TestRNICLibraryFixed(t *testing.T) {
	for name, flags := range map[string][]string{"mlx5": {patient}, "bnxt_re": {patient, "-DBNXT"}} {
		t.Run(name, func(t *testing.T) { testFixed(t, flags) })
	}
}

func testFixed(t *testing.T, flags []string) {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 8})
	if err != nil {
		t.Fatal(err)
	}
	preload, program := buildRNIC(t, flags...)
	socket := filepath.Join(t.TempDir(), "s")
	a := start(t, f, socket, nil, nil)
	defer a.stop()
	p := runRNIC(t, preload, program, socket, "DEVICE_FIXED=1")
	p.do(fmt.Sprintf("connect 1 ::ffff:%v 101", f.HostAddr4(15)), "start 1")
	at := p.agrees(a, 1)[0]
	link, err := f.LinkByName(fmt.Sprintf("tor0-spine%d", at.Label))
	if err != nil {
		t.Fatal(err)
	}
	err = a.Update(&statepb.Update{Instance: "c", Epoch: 1, Snapshot: true, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}})
	if err == nil || unexpected(err) && !strings.Contains(err.Error(), "the device cannot change the source port of a queue pair in use") {
		t.Errorf("a flip that cannot be made: %v", err)
	}
	if last, calls := p.labels(); last[1] != at.Label || calls != 1 {
		t.Errorf("label %d after %d calls, was %d", last[1], calls, at.Label)
	}
}

// TestRNICLibraryHostile: whatever serves the socket, the program goes on.
func TestRNICLibraryHostile(t *testing.T) {
	preload, program := buildRNIC(t)
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	p := runRNIC(t, preload, program, socket)
	pair := `{"dst":"10.3.1.3","qp":101,"label":1}`
	for i, line := range []string{
		"", "{}", "null", `{"seq":1}`, `{"seq":0,"set":[` + pair + `]}`, `{"seq":1,"set":[]}`, `{"seq":1,"set":[` + pair, `{"set":[` + pair + `]}`,
		`{"seq":1,"set":[{"dst":"` + strings.Repeat("1", 100) + `","qp":1,"label":1}]}`, `{"seq":1,"set":[{"dst":"\u0031","qp":1,"label":1}]}`,
		`{"seq":1,"set":[{"dst":"10.3.1.3","qp":4294967296,"label":1}]}`, `{"seq":1,"set":[{"dst":"10.3.1.3","qp":101,"label":16384}]}`,
		`{"seq":1,"set":[{"dst":"10.3.1.3","qp":-1,"label":1}]}`, `{"seq":99999999999999999999,"set":[` + pair + `]}`,
		`{"seq":1,"set":[` + pair + `],"more":1}`, `{"seq":1,"set":[` + pair + `]}}`, strings.Repeat("[", 1<<20), strings.Repeat(" ", 1<<20),
		`{"seq":1,"set":[` + pair + "\x00", "\xff\xfe",
	} {
		if i == 0 {
			p.do("connect 1 ::ffff:10.3.1.3 101")
		}
		conn, err := lis.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Write([]byte(line + "\n"))
		if err == nil {
			conn.SetReadDeadline(time.Now().Add(20 * time.Second)) //nolint:errcheck // the read fails, too
			_, err = io.Copy(io.Discard, conn)                     // until it hangs up
		}
		if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%.60q: %v", line, err)
		}
		conn.Close()
		p.do("start 1", "reset 1", "connect 1 ::ffff:10.3.1.3 101")
	}
	if last, _ := p.labels(); len(last) != 0 {
		t.Errorf("labels of nobody: %v", last)
	}
}

// TestRNICLibraryUnread: an agent that takes the connection and reads nothing, as one that is stopped, has the program
// wait for nothing; what is said meanwhile is kept for it, within a bound.
func TestRNICLibraryUnread(t *testing.T) {
	preload, program := buildRNIC(t)
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	p := runRNIC(t, preload, program, socket)
	const pairs = 90
	for n := range pairs { // that it says nothing is waited for a few times only
		p.connect(n)
	}
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const times = 100 // more than a socket holds unread
	for range times {
		for n := range pairs {
			p.do(fmt.Sprintf("reset %d", n), fmt.Sprintf("connect %d ::ffff:10.3.1.3 %d", n, 100+n))
		}
	}
	conn.SetReadDeadline(time.Now().Add(time.Minute)) //nolint:errcheck // the read fails, too
	shown := 0
	for lines := bufio.NewScanner(conn); shown < pairs*(times+1) && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), `{"show"`) {
			shown++
		}
	}
	if shown < pairs*(times+1) {
		t.Errorf("the agent hears %d times of a queue pair, want %d: the library has waited, and hung up", shown, pairs*(times+1))
	}
}
