package mininet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// python is Debian's: Mininet is installed for it, and not for others.
const python = "/usr/bin/python3"

// TestLint holds the Python code to flake8 and mypy.
func TestLint(t *testing.T) {
	systemtest.Only(t)
	for _, c := range []struct {
		tool string
		args []string
	}{
		{"flake8", []string{"--config", "setup.cfg", "."}},
		{"mypy", []string{"--config-file", "setup.cfg", "--cache-dir", t.TempDir(), "etherealnet", "run.py", "custom.py", "tutorials.py"}},
	} {
		t.Run(c.tool, func(t *testing.T) {
			path := systemtest.Program(t, c.tool, "", "apt-get install "+c.tool)
			if out, err := exec.Command(path, c.args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestEndings: a signal that comes again while a script takes down does not leave the rest standing. The kernel sends
// the signal of a parent's death once for each thread of the parent that ends.
func TestEndings(t *testing.T) {
	if _, err := os.Stat(python); err != nil {
		t.Skip("no python3")
	}
	const script = `
import os, signal, time
from etherealnet.endings import Ended, end_on_signals
end_on_signals()
try:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(os.getpid(), s)
        time.sleep(0.01)
        print("taken down")
except Ended as err:
    print(f"ended by {err}")
`
	out, err := exec.Command(python, "-c", script).CombinedOutput()
	if want := "taken down\nended by SIGTERM\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%swanted\n%s", err, out, want)
	}
}

// lab is what running the scripts takes.
type lab struct {
	ethereal string
	dir      string // of the deployment
}

func newLab(t *testing.T) lab {
	t.Helper()
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("network namespaces take root")
	}
	if out, err := exec.Command(python, "-c", "import mininet.net").CombinedOutput(); err != nil {
		t.Skipf("no Mininet for %s: apt-get install mininet\n%s", python, out)
	}
	for _, tool := range []string{"mnexec", "ethtool", "ping", "ip", "tc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: apt-get install mininet ethtool iputils-ping iproute2", tool)
		}
	}
	if out, err := exec.Command("unshare", "-nm", "mount", "-t", "sysfs", "sysfs", "/sys").CombinedOutput(); err != nil {
		t.Skipf("no network namespaces: %v\n%s", err, out)
	}
	return lab{ethereal: etherealtest.Binary(t), dir: t.TempDir()}
}

// run runs run.py in namespaces of its own.
func (l lab) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"run.py", "--isolate", "--dir", l.dir, "--ethereal", l.ethereal}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	t.Logf("run.py %s\n%s", strings.Join(args, " "), out)
	return string(out), err
}

// TestKernelSwitch does what TestGoSwitch does with switches that forward in the
// kernel.
func TestKernelSwitch(t *testing.T) {
	l := newLab(t)
	out, err := l.run(t, "--switch", "kernel")
	if strings.Contains(out, "TCX hook") {
		t.Skip("the kernel takes no program on an interface's way in")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pingall: 240 pairs, 0 % lost", "ok     finished 1 (= 1)", "ok     gnmi 2", "every check passes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestGoSwitch boots the k=4 fat-tree with the Go switch: all pairs ping, and an
// all-to-all ends although a link goes down by gNMI.
func TestGoSwitch(t *testing.T) {
	l := newLab(t)
	out, err := l.run(t, "--probe", "--view")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"16 hosts, 20 switches, 48 links", "pingall: 240 pairs, 0 % lost", "416 paths: 0 answer nothing", "the fabric's page: http://127.0.0.1:", "ok     finished 1 (= 1)", "ok     gnmi 2", "every check passes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// small is an experiment with a fabric of its own; another has a third ToR.
const small = `name: small
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 1}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
deadline: 20ms
steps:
  - {at: 20us, action: cut, link: uplink of tor0, detection: 10us}
expect:
  - {that: finished, is: true}
`

// writeSmall writes a.yaml and b.yaml, of two different fabrics.
func writeSmall(t *testing.T) (a, b string) {
	t.Helper()
	dir := t.TempDir()
	a, b = filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	for path, text := range map[string]string{a: small, b: strings.Replace(small, "tors: 2", "tors: 3", 1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// TestFabricOfExperiments: without --fabric the fabric is that of the experiments, and never another one.
func TestFabricOfExperiments(t *testing.T) {
	systemtest.Only(t)
	a, b := writeSmall(t)
	script := "import sys; from etherealnet.deployment import Deployment\n" +
		"d = Deployment(None, sys.argv[1], sys.argv[2], scenarios=sys.argv[3:]); print(d.fabric.size(), d.fabric_file)"
	load := func(files ...string) string {
		dir := t.TempDir()
		out, _ := exec.Command("python3", append([]string{"-c", script, etherealtest.Binary(t), dir}, files...)...).CombinedOutput()
		return strings.ReplaceAll(string(out), dir, "DIR")
	}
	if got, want := load(a, a), "2 hosts, 4 switches and 6 links DIR/fabric.yaml\n"; got != want {
		t.Errorf("the experiment's fabric: %s, want %s", got, want)
	}
	if got := load(a, b); !strings.Contains(got, "run them one by one, or name the fabric for all with --fabric FILE") {
		t.Errorf("experiments of two fabrics: %s", got)
	}
}

// TestDeployment: the controller's token outlives the controller, and another folder than the default is named in
// commands.
func TestDeployment(t *testing.T) {
	systemtest.Only(t)
	a, _ := writeSmall(t)
	dir := t.TempDir()
	script := "import sys; from etherealnet.deployment import Deployment\n" +
		"d = Deployment(None, *sys.argv[1:3], scenarios=sys.argv[3:]); first = open(d.write_token()).read()\n" +
		"print(open(d.write_token()).read() == first); print(d.commands('tor0-spine0'))"
	out, err := exec.Command("python3", "-c", script, etherealtest.Binary(t), dir, a).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "True\n") {
		t.Errorf("a controller that is started again has another token: %v\n%s", err, out)
	}
	for _, want := range []string{
		"ethereal verify --fabric " + dir + "/fabric.yaml --targets " + dir + "/targets.yaml\n",
		"ethereal drain tor0-spine0 --admin 127.0.0.1:29999 --admin-token-file " + dir + "/token\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
}

// TestOwnFabric boots the fabric of an experiment.
func TestOwnFabric(t *testing.T) {
	l := newLab(t)
	a, _ := writeSmall(t)
	out, err := l.run(t, a)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 hosts, 4 switches, 6 links", "ok     finished 1 (= 1)", "tor0-spine0"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestShaped: what a kernel can do to links is read back, and what it cannot is
// said instead of left out.
func TestShaped(t *testing.T) {
	l := newLab(t)
	fabric := filepath.Join(t.TempDir(), "fabric.yaml")
	if err := os.WriteFile(fabric, []byte("kind: leaf-spine\ntors: 2\nspines: 1\nhosts_per_tor: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		discipline string
		flags      []string
		refusal    string
	}{
		{"handle 5: htb default 1", []string{"--bw", "50"}, "bw=50"},
		{"netem delay 1ms", []string{"--delay", "1ms"}, "delay=1ms: the kernel has 0 ms"},
	} {
		probe := "ip link add v0 type veth peer name v1 && tc qdisc add dev v0 root " + c.discipline
		can := exec.Command("unshare", "-n", "sh", "-c", probe).Run() == nil
		out, err := l.run(t, append([]string{"--fabric", fabric, "--ping-only"}, c.flags...)...)
		switch {
		case can && (err != nil || !strings.Contains(out, "pingall: 2 pairs, 0 % lost")):
			t.Errorf("%v: %v", c.flags, err)
		case !can && (err == nil || !strings.Contains(out, c.refusal)):
			t.Errorf("%v: the kernel cannot, and nobody says so: %v", c.flags, err)
		}
	}
}

// TestClean: what a run that was killed leaves behind is found and removed.
func TestClean(t *testing.T) {
	l := newLab(t)
	record := fmt.Sprintf("{\"pid\": %d, \"start\": 1}\n{\"interface\": \"no-such-0\"}\n"+
		"{\"interface\": \"lo\", \"namespace\": 1}\n{\"pid\": 1", os.Getpid())
	if err := os.WriteFile(filepath.Join(l.dir, "record.jsonl"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	// This process has the number, but did not start then: it is not ended. lo has
	// the name, but is of another namespace: nobody tries to delete it.
	if out, err := l.run(t, "--clean"); err != nil || strings.Contains(out, "process") || strings.Contains(out, "interface") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(l.dir, "record.jsonl")); err == nil {
		t.Error("the record is still there")
	}
	left := exec.Command("sleep", "1000")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", left.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+2:]))
	record = fmt.Sprintf("{\"pid\": %d, \"start\": %s}\n", left.Process.Pid, fields[19])
	if err := os.WriteFile(filepath.Join(l.dir, "record.jsonl"), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := l.run(t, "--clean"); err != nil || !strings.Contains(out, "removed process") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := left.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
}

// TestBMv2 does the same with BMv2, unchanged but for --switch.
func TestBMv2(t *testing.T) {
	binary := systemtest.Program(t, "simple_switch_grpc", "BMV2", "name BMv2's in BMV2 or have it on the path")
	l := newLab(t)
	out, err := l.run(t, "--switch", "bmv2", "--bmv2", binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pingall: 240 pairs, 0 % lost", "every check passes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// TestKilledParent kills `ethereal mininet up`: the fabric goes with it, and nothing is left for mininet clean.
func TestKilledParent(t *testing.T) {
	l := newLab(t)
	t.Setenv("TMPDIR", t.TempDir()) // of the script's folder
	out, in, err := os.Pipe()       // the command line's input, which does not end
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer in.Close()
	said := filepath.Join(t.TempDir(), "said")
	log, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(l.ethereal, "mininet", "up", "--isolate", "--dir", l.dir)
	cmd.Dir = l.dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = out, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text := func() string { b, _ := os.ReadFile(said); return string(b) }
	wait := func(what string, ok func() bool) {
		t.Helper()
		for began := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > 2*time.Minute {
				cmd.Process.Signal(syscall.SIGTERM)
				t.Fatalf("%s: not within two minutes\n%s", what, text())
			}
		}
	}
	wait("the fabric is up", func() bool { return strings.Contains(text(), "In another terminal") })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() //nolint:errcheck // it was killed
	wait("all is taken down", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			if command, err := os.ReadFile(file); err == nil && strings.Contains(string(command), l.dir) {
				return false
			}
		}
		return true
	})
	if !strings.Contains(text(), "all is taken down") {
		t.Errorf("the script says\n%s", text())
	}
	wait("the script's folder is removed", func() bool {
		left, err := os.ReadDir(os.TempDir())
		return err == nil && len(left) == 0
	})
}
