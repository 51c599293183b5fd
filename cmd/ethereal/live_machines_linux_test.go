package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// site is some network namespaces that stand for machines, with a bridge between them, in namespaces of the test's own. The
// remote shell is a script: it takes a machine's name and a command, as ssh does. The last machine has a monotonic clock of
// its own, days ahead, where the kernel has time namespaces.
type site struct {
	t     *testing.T
	dir   string
	shell string
	hold  []*exec.Cmd // a process that has each namespace
	err   lockedBuffer
	dead  int // machines that were taken down
	ahead int // seconds by which the last machine's clock is ahead; 0: it has the others'
}

// lockedBuffer is written by a process while a test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func machineNameOf(i int) string { return "m" + strconv.Itoa(i) }

func newSite(t *testing.T, count int) *site {
	t.Helper()
	systemtest.Only(t)
	for _, tool := range []string{"openssl", "nsenter", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not on the PATH", tool)
		}
	}
	s := &site{t: t, dir: t.TempDir()}
	t.Setenv("TMPDIR", s.dir)
	t.Setenv("ETHEREAL_LIVE_SANDBOX", "") // what the machines start is not in the test's sandbox
	t.Setenv(beEthereal, "1")
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Skipf("%s: %v", what, err)
		}
	}
	// nsenter looks processes up by their numbers in this test's namespace.
	must("mounts of its own", syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must("proc", syscall.Mount("proc", "/proc", "proc", 0, ""))
	probe := netlink.NewLinkAttrs()
	probe.Name = "probe"
	vxlan := &netlink.Vxlan{LinkAttrs: probe, VxlanId: 1, Group: net.IPv4(192, 0, 2, 1), Port: 4789}
	must("VXLAN", netlink.LinkAdd(vxlan))
	must("VXLAN", netlink.LinkDel(vxlan))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "underlay", 9000
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	must("bridge", netlink.LinkAdd(bridge))
	must("bridge", netlink.LinkSetUp(bridge))
	s.shell = filepath.Join(s.dir, "shell")
	clock := []string{"unshare", "--time", "--monotonic", "300000"}
	if err := exec.Command(clock[0], append(slices.Clone(clock[1:]), "true")...).Run(); err != nil {
		t.Logf("all machines have one clock: %v: %v", clock, err)
	} else {
		s.ahead = 300000
	}
	// Only a clock that is another is entered: the first one is the machine's, which takes its root.
	script := "#!/bin/sh\nm=$1\nshift\ncase $1 in ip) ;; *) echo $$ >>" + s.dir + "/$m.started ;; esac\n" +
		"pid=$(cat " + s.dir + "/$m.pid)\nclock=/proc/$pid/ns/time_for_children\n" +
		"[ \"$(readlink $clock)\" = \"$(readlink /proc/self/ns/time)\" ] && exec nsenter -t $pid -n \"$@\"\n" +
		"exec nsenter -t $pid -n --time=$clock \"$@\"\n"
	if err := os.WriteFile(s.shell, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		words := []string{"sleep", "infinity"}
		apart := s.ahead > 0 && i == count-1
		if apart {
			words = append(clock, words...)
		}
		hold := exec.Command(words[0], words[1:]...)
		hold.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		must("network namespace", startFromStaying(t, hold))
		s.hold = append(s.hold, hold)
		if apart {
			succeeds(t, time.Minute, "the last machine has its clock", func() error {
				own, err := os.Readlink("/proc/self/ns/time")
				its, err2 := os.Readlink(fmt.Sprintf("/proc/%d/ns/time_for_children", hold.Process.Pid))
				if err = errors.Join(err, err2); err == nil && its == own {
					err = errors.New("it has the others'")
				}
				return err
			})
		}
		t.Cleanup(func() {
			_ = hold.Process.Kill()
			_ = hold.Wait()
		})
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU, attrs.MasterIndex = machineNameOf(i), 9000, bridge.Index
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerMTU: 9000, PeerNamespace: netlink.NsPid(hold.Process.Pid)}
		must("veth pair", netlink.LinkAdd(veth))
		must("veth pair", netlink.LinkSetUp(veth))
		if err := os.WriteFile(filepath.Join(s.dir, machineNameOf(i)+".pid"), []byte(strconv.Itoa(hold.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"addr", "add", fmt.Sprintf("192.0.2.%d/24", i+1), "dev", "eth0"}, {"link", "set", "lo", "up"}, {"link", "set", "eth0", "up"}} {
			if out, err := s.on(i, append([]string{"ip"}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %v: %v: %s", args, err, out)
			}
		}
	}
	return s
}

// startFromStaying starts a command from a thread that stays until the test's end: the signal of its parent's death comes when
// the thread ends that has started it, and those end that have been in other namespaces.
func startFromStaying(t *testing.T, cmd *exec.Cmd) error {
	started, over := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		started <- cmd.Start()
		<-over
	}()
	t.Cleanup(func() { close(over) })
	return <-started
}

// on returns a command on a machine.
func (s *site) on(machine int, words ...string) *exec.Cmd {
	return exec.Command(filepath.Join(s.dir, "shell"), append([]string{machineNameOf(machine)}, words...)...)
}

// ethereal returns a command of this program on the first machine.
func (s *site) ethereal(args ...string) *exec.Cmd {
	return s.on(0, append([]string{os.Getenv("ETHEREAL_TEST_PROGRAM")}, args...)...)
}

// up builds a fabric on all machines, and returns its folder and what takes it down.
func (s *site) up(flags ...string) (dir string, down func()) {
	s.t.Helper()
	dir = filepath.Join(s.dir, "lab")
	var on []string
	for i := range s.hold {
		on = append(on, fmt.Sprintf("%s=192.0.2.%d", machineNameOf(i), i+1))
	}
	args := append([]string{"live", "up", "--on", strings.Join(on, ","), "--remote-shell", s.shell, "--dir", dir, "--lab-ca", "../../scripts/lab-ca"}, flags...)
	head := s.ethereal(args...)
	head.Stdout, head.Stderr = &s.err, &s.err
	if err := head.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- head.Wait() }()
	s.t.Cleanup(func() { _ = head.Process.Kill() })
	succeeds(s.t, 5*time.Minute, "the fabric is up", func() error {
		select {
		case err := <-ended:
			s.t.Fatalf("live up ended: %v\n%s", err, s.err.String())
		default:
		}
		if out := s.err.String(); !strings.Contains(out, "are up on") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	return dir, func() {
		s.t.Helper()
		if out, err := s.ethereal("live", "down", "--dir", dir).CombinedOutput(); err != nil {
			s.t.Fatalf("live down: %v: %s", err, out)
		}
		select {
		case err := <-ended:
			if err != nil {
				s.t.Errorf("live up ended: %v\n%s", err, s.err.String())
			}
		case <-time.After(time.Minute):
			s.t.Errorf("live up goes on after live down\n%s", s.err.String())
		}
		left, err := filepath.Glob(filepath.Join(s.dir, "ethereal-live-*"))
		if err != nil || len(left) > s.dead { // who is killed leaves a folder to the next one
			s.t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// takeDown has a machine lose its power: all that runs in its namespace is killed.
func (s *site) takeDown(machine int) {
	s.t.Helper()
	s.dead++
	text, err := os.ReadFile(filepath.Join(s.dir, machineNameOf(machine)+".started"))
	if err != nil {
		s.t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.hold[machine].Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
}

// TestLiveOn builds a small fabric on two machines, carries out an experiment on it, and takes one machine down: it is named
// with what it had, and what is on the other one goes on.
func TestLiveOn(t *testing.T) {
	systemtest.Only(t)
	if !inNamespaces(t) {
		return
	}
	s := newSite(t, 2)
	spec := filepath.Join(s.dir, "fabric.yaml")
	link := "{rate: 100Mb/s}"
	text := "kind: leaf-spine\ntors: 4\nspines: 2\nhosts_per_tor: 1\nhost_link: " + link + "\ntor_uplink: " + link + "\n"
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, down := s.up("--fabric", spec, "--view")
	deployment := filepath.Join(dir, deployment.FileName)
	out, err := s.ethereal("run", "--world", "lab", "--deployment", deployment, "../../mininet/experiments/core-switch.yaml").CombinedOutput()
	if err != nil {
		t.Fatalf("core-switch: %v\n%s", err, out)
	}
	if s.ahead > 0 && !strings.Contains(string(out), "a clock 300000.") && !strings.Contains(string(out), "a clock 299999.") {
		t.Errorf("nothing is said of the machine whose clock is 300000 s ahead:\n%s", out)
	}
	s.page()
	// A session before, so that what it does is on the hosts that are left, and only there.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	session, err := coordinator.Connect(ctx, []string{filepath.Join(dir, "h0.sock"), filepath.Join(dir, "h1.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	move := func(when string) {
		t.Helper()
		err := session.Post(ctx, coordinator.Transfer{Src: 0, Dst: 1, Bytes: 200e3}, coordinator.Transfer{Src: 1, Dst: 0, Bytes: 200e3})
		if err == nil {
			err = session.Until(ctx, time.Minute, "messages arrive", func() bool { return session.Open() == 0 })
		}
		if err == nil {
			err = session.Check()
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", when, err, s.err.String())
		}
	}
	move("both machines are there")
	s.takeDown(1)
	move("a machine is lost")
	succeeds(t, time.Minute, "the lost machine is named", func() error {
		out, err := s.ethereal("live", "status", "--dir", dir).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "m1          192.0.2.2  lost  h2 h3 tor2 tor3 spine1") ||
			!strings.Contains(string(out), "m0          192.0.2.1  up    h0 h1 tor0 tor1 spine0") {
			return fmt.Errorf("status: %w: %s", err, out)
		}
		return nil
	})
	if out := s.err.String(); !strings.Contains(out, "machine m1 is lost, and with it h2, h3, tor2, tor3, spine1") {
		t.Errorf("live up says:\n%s", out)
	}
	out, err = s.ethereal("run", "--world", "lab", "--deployment", deployment, "../../mininet/experiments/core-switch.yaml").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "machine m1 is lost: ") {
		t.Errorf("an experiment without m1: %v\n%s", err, out)
	}
	certs := filepath.Join(dir, "certs")
	succeeds(t, time.Minute, "the controller names what is lost", func() error {
		out, err := s.ethereal("status", "--admin", "192.0.2.1:9560", "--tls-ca", filepath.Join(certs, "ca.pem"),
			"--tls-cert", filepath.Join(certs, "controller.pem"), "--tls-key", filepath.Join(certs, "controller.key")).CombinedOutput()
		for _, want := range []string{"tor0-spine1", "tor1-spine1", "tor2-spine0", "tor3-spine0"} {
			if !strings.Contains(string(out), want) {
				return fmt.Errorf("%s is not among the links that are not up: %w\n%s", want, err, out)
			}
		}
		return nil
	})
	down()
}

// page reads the page of the fabric on the first machine, which alone has it.
func (s *site) page() {
	s.t.Helper()
	_, text, _ := strings.Cut(s.err.String(), "the fabric's page, once its controller runs: ")
	text, _, _ = strings.Cut(text, "\n")
	at, err := url.Parse(text)
	if err != nil || at.Host == "" {
		s.t.Errorf("live up says of the page %q: %v", text, err)
		return
	}
	var conn net.Conn
	inNet(s.t, s.hold[0].Process.Pid, func() (err error) {
		conn, err = net.Dial("tcp", at.Host)
		return err
	})
	client := http.Client{Transport: &http.Transport{
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		DisableKeepAlives: true,
	}}
	resp, err := client.Get(at.String())
	if err != nil {
		s.t.Error(err)
		return
	}
	defer resp.Body.Close()
	if page, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(page, []byte("<html")) {
		s.t.Errorf("the page at %v: %v: %.200s", at, err, page)
	}
}

// TestTwelveOnMachines carries the experiments out on a fat-tree of three machines: ETHEREAL_MACHINES=3 go test ./cmd/ethereal
// -run TestTwelveOnMachines -v.
func TestTwelveOnMachines(t *testing.T) {
	count, err := strconv.Atoi(os.Getenv("ETHEREAL_MACHINES"))
	if err != nil {
		t.Skip("minutes of CPU: set ETHEREAL_MACHINES to how many namespaces stand for machines, 2 to 4")
	}
	if !inNamespaces(t) {
		return
	}
	s := newSite(t, count)
	dir, down := s.up("--k", "4")
	files, err := filepath.Glob("../../mininet/experiments/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--world", "lab", "--deployment", filepath.Join(dir, deployment.FileName)}
	for _, name := range files {
		if filepath.Base(name) != "soak.yaml" { // lets any link swallow all, which a deployment has no way to
			args = append(args, name)
		}
	}
	out, err := s.ethereal(args...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("%v\n%s", err, s.err.String())
	}
	down()
}

// TestMachinesFlags: nothing that a shell on another machine could read as something else goes to it.
func TestMachinesFlags(t *testing.T) {
	good := machinesFlags{on: []string{"a=192.0.2.1", "root@b.example=2001:db8::1"}, dir: "it's here", shell: "ssh -p 22", program: "sudo /opt/e", vxlanPort: 4789}
	cfg, err := good.read(t.Context())
	if err != nil || len(cfg.Machines) != 2 || len(cfg.Shell) != 3 || len(cfg.Program) != 2 || filepath.Base(cfg.Dir) != "it's here" {
		t.Errorf("%+v, %v", cfg, err)
	}
	for what, change := range map[string]func(*machinesFlags){
		"one machine":        func(m *machinesFlags) { m.on = m.on[:1] },
		"an option of ssh":   func(m *machinesFlags) { m.on[1] = "-oProxyCommand=id" },
		"a command":          func(m *machinesFlags) { m.on[1] = "b;id=192.0.2.2" },
		"a space":            func(m *machinesFlags) { m.on[1] = "b c=192.0.2.2" },
		"no name":            func(m *machinesFlags) { m.on[1] = "=192.0.2.2" },
		"a name twice":       func(m *machinesFlags) { m.on[1] = "a=192.0.2.2" },
		"no address":         func(m *machinesFlags) { m.on[1] = "b=x" },
		"a program to split": func(m *machinesFlags) { m.program = "/opt/e;id" },
		"a program's quotes": func(m *machinesFlags) { m.program = "/opt/it's" },
		"a substitution":     func(m *machinesFlags) { m.program = "$(id)" },
		"no program":         func(m *machinesFlags) { m.program = " " },
		"no shell":           func(m *machinesFlags) { m.shell = " " },
		"a port":             func(m *machinesFlags) { m.vxlanPort = 0 },
	} {
		bad := good
		bad.on = slices.Clone(good.on)
		change(&bad)
		if cfg, err := bad.read(t.Context()); err == nil {
			t.Errorf("%s: %+v", what, cfg)
		}
	}
}

// bySSH has the machines but the first be reached by OpenSSH, over the network between them.
func (s *site) bySSH() (flags []string) {
	s.t.Helper()
	for _, tool := range []string{"ssh", "/usr/sbin/sshd", "ssh-keygen"} {
		if _, err := exec.LookPath(tool); err != nil {
			s.t.Skipf("%v: install openssh-server", err)
		}
	}
	at := func(name string) string { return filepath.Join(s.dir, name) }
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at("key")).CombinedOutput(); err != nil {
		s.t.Skipf("ssh-keygen: %v: %s", err, out)
	}
	s.shell = at("ssh")
	script := fmt.Sprintf("#!/bin/sh\nm=$1\nshift\nexec ssh -F none -i %[1]s/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"+
		" -o LogLevel=ERROR root@$(cat %[1]s/$m.address) \"$@\"\n", s.dir)
	if err := os.WriteFile(s.shell, []byte(script), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		s.t.Skip(err)
	}
	for i := 1; i < len(s.hold); i++ {
		address := fmt.Sprintf("192.0.2.%d", i+1)
		if err := os.WriteFile(at(machineNameOf(i)+".address"), []byte(address), 0o600); err != nil {
			s.t.Fatal(err)
		}
		server := s.on(i, "/usr/sbin/sshd", "-D", "-e", "-f", "/dev/null", "-h", at("key"), "-o", "ListenAddress="+address,
			"-o", "AuthorizedKeysFile="+at("key.pub"), "-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PermitRootLogin=yes", "-o", "PidFile=none")
		if err := server.Start(); err != nil {
			s.t.Skip(err)
		}
		s.t.Cleanup(func() {
			_ = server.Process.Kill()
			_ = server.Wait()
		})
	}
	succeeds(s.t, time.Minute, "all machines are reached by ssh", func() error {
		for i := 1; i < len(s.hold); i++ {
			if out, err := s.on(0, s.shell, machineNameOf(i), "true").CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	})
	return []string{"--program", fmt.Sprintf("env %s=1 TMPDIR=%s %s", beEthereal, s.dir, os.Getenv("ETHEREAL_TEST_PROGRAM"))}
}

// TestPartition: the network between two machines swallows all while an experiment runs, and nothing goes down. The run ends
// with an error, the machine is named as lost within the limit and keeps nothing, and what is left goes on.
func TestPartition(t *testing.T) {
	if os.Getenv("ETHEREAL_MACHINES") == "" {
		t.Skip("a minute of waiting: set ETHEREAL_MACHINES")
	}
	if !inNamespaces(t) {
		return
	}
	s := newSite(t, 2)
	flags := s.bySSH()
	spec := filepath.Join(s.dir, "fabric.yaml")
	link := "{rate: 100Mb/s}"
	text := "kind: leaf-spine\ntors: 4\nspines: 2\nhosts_per_tor: 1\nhost_link: " + link + "\ntor_uplink: " + link + "\n"
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, down := s.up(append(flags, "--fabric", spec)...)
	many := filepath.Join(s.dir, "many.yaml")
	text = "name: many\nfabric: {kind: fat-tree, k: 4}\ncollectives: [{kind: all-to-all, bytes: 16MB}]\nschemes: [ethereal]\nseeds: 1..30\n" +
		"deadline: 20ms\nexpect: [{that: finished, is: true}]\n"
	if err := os.WriteFile(many, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := s.ethereal("run", "--world", "lab", "--deployment", filepath.Join(dir, deployment.FileName), many)
	var out lockedBuffer
	run.Stdout, run.Stderr = &out, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	succeeds(t, time.Minute, "a run is over, and the next one begins", func() error {
		if !strings.Contains(out.String(), "ok     finished") {
			return errors.New(out.String())
		}
		return nil
	})
	port, err := netlink.LinkByName(machineNameOf(1))
	if err == nil {
		err = netlink.LinkSetNoMaster(port)
	}
	if err != nil {
		t.Fatal(err)
	}
	cut := time.Now()
	succeeds(t, 2*time.Minute, "the lost machine is named", func() error {
		if !strings.Contains(s.err.String(), "machine m1 is lost, and with it h2, h3, tor2, tor3, spine1") {
			return errors.New(s.err.String())
		}
		return nil
	})
	t.Logf("it is named %v after the cut", time.Since(cut))
	select {
	case err := <-ended:
		t.Logf("the runs ended %v after the cut: %v\n%.1800s", time.Since(cut), err, out.String())
		if !strings.Contains(out.String(), "machine m1 is lost") {
			t.Errorf("the runs do not say what is lost:\n%s", out.String())
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("the runs go on\n%s", out.String())
	}
	// The other side finds out by itself: nothing that it had is left.
	succeeds(t, 2*time.Minute, "the lost machine keeps nothing", func() error {
		left, err := filepath.Glob(filepath.Join(s.dir, "ethereal-live-*"))
		if err == nil && len(left) != 1 {
			err = fmt.Errorf("folders: %v", left)
		}
		return err
	})
	t.Logf("it keeps nothing %v after the cut", time.Since(cut))
	// It comes back, and carries its part of an experiment.
	bridge, err := netlink.LinkByName("underlay")
	if err == nil {
		err = netlink.LinkSetMaster(port, bridge)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.ethereal("live", "rejoin", "m2", "--dir", dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "no machine") {
		t.Errorf("a machine that there is not: %v: %s", err, out)
	}
	back := time.Now()
	if out, err := s.ethereal("live", "rejoin", "m1", "--dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("rejoin: %v: %s\n%s", err, out, s.err.String())
	}
	t.Logf("it is back after %v", time.Since(back))
	if out, err := s.ethereal("live", "rejoin", "m1", "--dir", dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "not lost") {
		t.Errorf("a machine that is there: %v: %s", err, out)
	}
	if out, err := s.ethereal("live", "status", "--dir", dir).CombinedOutput(); err != nil {
		t.Errorf("status: %v: %s", err, out)
	}
	args := []string{"run", "--world", "lab", "--deployment", filepath.Join(dir, deployment.FileName), "../../mininet/experiments/core-switch.yaml"}
	if out, err := s.ethereal(args...).CombinedOutput(); err != nil {
		t.Errorf("core-switch: %v\n%s\n%s", err, out, s.err.String())
	}
	down()
}
