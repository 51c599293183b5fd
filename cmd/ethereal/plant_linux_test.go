package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/controller/targets/bmv2"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// beEthereal has the test's program be ethereal instead.
const beEthereal = "ETHEREAL_TEST_IS_ETHEREAL"

// TestMain lets tests start their own program as ethereal, in processes that can
// be killed.
func TestMain(m *testing.M) {
	if os.Getenv(beEthereal) == "" {
		// Tests beside each other wait most of the time.
		flag.Set("test.parallel", strconv.Itoa(max(3, runtime.GOMAXPROCS(0)))) //nolint:errcheck // -parallel has the last word
		os.Exit(m.Run())
	}
	a := &app{stdout: os.Stdout, stderr: os.Stderr, run: virtual.Runner(), version: "test"}
	os.Exit(a.execute(context.Background(), os.Args[1:]))
}

// inNamespaces runs the calling test again, in network, mount and process
// namespaces of its own, and returns true there. What it started dies with it. Such
// tests wait most of the time, for processes to start and links to be seen: several go
// on at once.
func inNamespaces(t *testing.T) bool {
	t.Helper()
	systemtest.Only(t)
	if _, ok := live.Inside(); ok {
		return true
	}
	t.Parallel()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	flag.Visit(func(f *flag.Flag) { // of this package's tests
		if !strings.HasPrefix(f.Name, "test.") || f.Name == "test.short" {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	if d, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+time.Until(d).String())
	}
	cmd, done, err := live.Command(args)
	if err != nil {
		t.Skip(err)
	}
	defer done()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "ETHEREAL_TEST_PROGRAM="+exe)
	var out bytes.Buffer
	cmd.Stdout = io.MultiWriter(&out, os.Stderr) // a long run is worth watching
	cmd.Stderr = cmd.Stdout
	// It dies with this process; the signal comes when this thread ends.
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Skipf("no namespaces here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "--- SKIP") {
		t.Skip("see above")
	}
	return false
}

// newBench runs the calling test again as inNamespaces does, and returns a fabric of processes there, with its files'
// folder; nil where that was done.
func newBench(
	t *testing.T, spec fabric.Spec, rate fabric.Rate, payload int, n live.Notifiers,
) (*fabric.Fabric, *live.Bench, string) {
	t.Helper()
	return newBenchOn(t, live.Interpreter, spec, rate, payload, n)
}

// newBenchOn is newBench on switches of another data path.
func newBenchOn(
	t *testing.T, datapath string, spec fabric.Spec, rate fabric.Rate, payload int, n live.Notifiers,
) (*fabric.Fabric, *live.Bench, string) {
	t.Helper()
	systemtest.Only(t)
	if !inNamespaces(t) {
		return nil, nil, ""
	}
	dir, _ := live.Inside()
	t.Setenv(beEthereal, "1") // what the fabric starts
	spec.HostLink = fabric.LinkSpec{Rate: rate, Delay: fabric.Microsecond}
	spec.ToRUplink = spec.HostLink
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	b, err := live.NewBench(t.Context(), live.Config{
		Base: live.Base{Dir: dir, Switches: live.Switches{Datapath: datapath}}, Fabric: f, Payload: payload, QueueDepth: 256,
	}, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return f, b, dir
}

// running is one program that was started.
type running struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func (p *running) signal(s syscall.Signal) { p.cmd.Process.Signal(s) } //nolint:errcheck // it may have ended

// plant is a fabric of switch processes on veth pairs, with controllers and
// agents, within one network namespace.
type plant struct {
	t     *testing.T
	f     *fabric.Fabric
	dir   string
	bmv2  string // simple_switch_grpc; "": our switch
	sai   string // P4INFO,JSON of sai_p4, which the switches run in place of the program; "": they do not
	procs map[string]*running
	veths []string // one end of each pair
}

func newPlant(t *testing.T, spec fabric.Spec, bmv2 string) *plant {
	t.Helper()
	p := newRack(t, spec, bmv2)
	p.write("fabric.yaml", fmt.Sprintf("kind: leaf-spine\ntors: %d\nspines: %d\nhosts_per_tor: %d\n", spec.ToRs, spec.Spines, spec.HostsPerToR))
	p.write("token", "0123456789abcdef\n")
	for i := range p.f.Switches() {
		p.startSwitch(p.switchID(i))
	}
	return p
}

// newRack makes the cables of a fabric, and starts nothing.
func newRack(t *testing.T, spec fabric.Spec, bmv2 string) *plant {
	t.Helper()
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{t: t, f: f, dir: t.TempDir(), bmv2: bmv2, procs: map[string]*running{}}
	t.Cleanup(p.close)
	if bmv2 != "" { // it looks interfaces up there
		err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		if err == nil {
			err = syscall.Mount("sysfs", "/sys", "sysfs", 0, "")
		}
		if err != nil {
			t.Skipf("no sysfs of the namespace's own: %v", err)
		}
	}
	os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644) //nolint:errcheck // else some noise
	p.up("lo", true)
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		p.veth(live.InterfaceName(f, l.A), live.InterfaceName(f, l.B))
	}
	return p
}

func (p *plant) switchID(i int) fabric.NodeID { return fabric.NodeID(p.f.Hosts() + i) }

func (p *plant) veth(a, b string) {
	p.t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a, 9500
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b, PeerMTU: 9500}); err != nil {
		p.t.Skipf("no veth pairs here: %v", err)
	}
	p.veths = append(p.veths, a)
	p.up(a, true)
	p.up(b, true)
}

// up takes an interface up or down.
func (p *plant) up(name string, up bool) {
	p.t.Helper()
	link, err := netlink.LinkByName(name)
	if err == nil {
		if up {
			err = netlink.LinkSetUp(link)
		} else {
			err = netlink.LinkSetDown(link)
		}
	}
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
}

func (p *plant) write(name, text string) string {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// start starts a program, whose output goes to a file of that name.
func (p *plant) start(name, program string, args ...string) {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), beEthereal+"=1")
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.dir
	if err := cmd.Start(); err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	x := &running{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(x.done); cmd.Wait() }()
	p.procs[name] = x
}

func (p *plant) ethereal(name string, args ...string) {
	p.t.Helper()
	p.start(name, os.Getenv("ETHEREAL_TEST_PROGRAM"), args...)
}

// kill ends a program by SIGKILL.
func (p *plant) kill(name string) {
	if x := p.procs[name]; x != nil {
		x.signal(syscall.SIGKILL)
		<-x.done
		delete(p.procs, name)
	}
}

func (p *plant) close() {
	for name := range p.procs {
		p.kill(name)
	}
	for _, name := range p.veths {
		if link, err := netlink.LinkByName(name); err == nil {
			netlink.LinkDel(link) //nolint:errcheck // the namespace takes it along
		}
	}
	if p.t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(p.dir, "*.log"))
		for _, path := range logs {
			text, _ := os.ReadFile(path)
			lines := strings.Split(string(text), "\n")
			p.t.Logf("%s:\n%s", filepath.Base(path), strings.Join(lines[max(0, len(lines)-12):], "\n"))
		}
	}
}

// Addresses, all on the loopback.
func (p *plant) switchAddr(id fabric.NodeID) string { return fmt.Sprintf("127.0.0.1:%d", 20000+id) }
func (p *plant) gnmiAddr(id fabric.NodeID) string {
	if p.bmv2 != "" {
		return fmt.Sprintf("127.0.0.1:%d", 21000+id)
	}
	return p.switchAddr(id)
}
func agentsAddr(c int) string { return fmt.Sprintf("127.0.0.1:%d", 9500+c) }
func adminAddr(c int) string  { return fmt.Sprintf("127.0.0.1:%d", 9600+c) }

// startSwitch starts a switch, and what serves gNMI beside it. ETHEREAL_SWITCH_OPTIONS are more options of `ethereal
// switch`.
func (p *plant) startSwitch(id fabric.NodeID) {
	name := p.f.Name(id)
	var ports []string
	for n := 1; n <= p.f.Node(id).Ports(); n++ {
		ports = append(ports, "-i", fmt.Sprintf("%d@%s", n, live.InterfaceName(p.f, fabric.End{Node: id, Port: fabric.PortNo(n)})))
	}
	device := []string{"--no-p4", "--device-id", fmt.Sprint(id + 1)}
	grpc := []string{"--", "--grpc-server-addr", p.switchAddr(id), "--cpu-port", fmt.Sprint(p4src.CPUPort)}
	if p.bmv2 == "" {
		args := append([]string{"switch", "--ethernet-names", "--log-console", "-L", "warn"}, device...)
		args = append(args, strings.Fields(os.Getenv("ETHEREAL_SWITCH_OPTIONS"))...)
		p.ethereal(name, append(append(args, ports...), grpc...)...)
		return
	}
	events := name + "-ev"
	if _, err := netlink.LinkByName(events); err != nil { // else of the process before
		p.veth(events, events+"x")
	}
	args := append(append(device, bmv2.ThriftOptions(p.bmv2, int(22000+id))...), ports...)
	p.start(name, p.bmv2, append(append(args, "-i", "508@"+events+"x"), grpc...)...)
	p.ethereal(name+"-gnmi", append([]string{"gnmi", "--ethernet-names", "--listen-gnmi", p.gnmiAddr(id), "--event-interface", events}, ports...)...)
}

// targets writes a targets file with the switches' P4Runtime at addresses of
// one's choice.
func (p *plant) targets(name string, at func(fabric.NodeID) string) string {
	var b strings.Builder
	if info, program, ok := strings.Cut(p.sai, ","); ok {
		fmt.Fprintf(&b, "programs: {sai: {p4info: '%s', json: '%s'}}\n", info, program)
	}
	b.WriteString("switches:\n")
	for i := range p.f.Switches() {
		id := p.switchID(i)
		kind := ""
		if p.sai != "" {
			var ports []string
			for n := 1; n <= p.f.Node(id).Ports(); n++ {
				ports = append(ports, fmt.Sprintf("{name: Ethernet%d, id: %d}", n, n))
			}
			kind = ", profile: pins, ports: [" + strings.Join(ports, ", ") + "]"
		}
		fmt.Fprintf(&b, "  %s: {p4runtime: '%s', gnmi: '%s'%s}\n", p.f.Name(id), at(id), p.gnmiAddr(id), kind)
	}
	return p.write(name, b.String())
}

// What a controller keeps, in folders of their own.
func (p *plant) eventLog(c int) string { return p.folder(fmt.Sprintf("log%d", c), "events.jsonl") }
func (p *plant) stateFile(c int) string {
	return p.folder(fmt.Sprintf("state%d", c), "drained.json")
}

func (p *plant) folder(dir, file string) string {
	dir = filepath.Join(p.dir, dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	return filepath.Join(dir, file)
}

func (p *plant) startController(c int, targets string, peers ...int) {
	args := []string{
		"controller", "--fabric=" + filepath.Join(p.dir, "fabric.yaml"), "--targets=" + targets, fmt.Sprintf("--election-id=%d", c+1),
		"--listen-agents=" + agentsAddr(c), "--listen-admin=" + adminAddr(c), "--admin-token-file=" + filepath.Join(p.dir, "token"),
		"--heartbeat=1s", "--keep-alive=1s", "--settle=5s", "--stage-timeout=500ms",
		"--event-log=" + p.eventLog(c), "--state-file=" + p.stateFile(c),
	}
	for _, o := range peers {
		args = append(args, "--peer="+agentsAddr(o))
	}
	p.ethereal(fmt.Sprintf("controller%d", c), args...)
}

// plantStatus is what of a controller's status the plant looks at.
type plantStatus struct {
	Ready, Busy bool
	Epoch       uint64
	Switches    []struct {
		Name, Phase, Error string
		Primary, Synced    bool
	}
	NotUp []struct {
		Name                  string
		Up, Flapping, Drained bool
	} `json:"links_not_up"`
	Agents []struct{ Behind uint64 }
}

func (p *plant) status(c int) (s plantStatus, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+adminAddr(c)+"/status", nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}

// until is [succeeds] for the plant's test.
func (p *plant) until(limit time.Duration, what string, ok func() error) {
	p.t.Helper()
	succeeds(p.t, limit, what, ok)
}

// succeeds polls until ok says nothing, or fails with what it said last.
func succeeds(t *testing.T, limit time.Duration, what string, ok func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// proved runs verify and a dry run against the switches themselves.
func (p *plant) proved(targets string, more ...string) error {
	files := []string{"--fabric=" + filepath.Join(p.dir, "fabric.yaml"), "--targets=" + targets}
	if code, out, errs := etherealCommand(context.Background(), append(append([]string{"verify"}, files...), more...)...); code != exitOK {
		return fmt.Errorf("verify: %s%s", out, errs)
	}
	code, out, errs := etherealCommand(context.Background(), append([]string{"controller", "--dry-run"}, files...)...)
	if want := fmt.Sprintf("0 updates of %d switches; 0 could not be read", p.f.Switches()); code != exitOK || !strings.Contains(out, want) {
		return fmt.Errorf("tables are not as desired: %s%s", out, errs)
	}
	return nil
}
