package live_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// output is what a process wrote until now.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until polls until ok, and fails the test after a minute.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// descendant returns the process below another whose command line has all words; 0: there is none.
func descendant(of int, words ...string) int {
	parents := map[int]int{}
	var found []int
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		command, _ := os.ReadFile(dir + "/cmdline")
		has := true
		for _, w := range words {
			has = has && bytes.Contains(command, []byte(w))
		}
		if has {
			found = append(found, pid)
		}
	}
	for _, pid := range found {
		for at := parents[pid]; at > 1; at = parents[at] {
			if at == of {
				return pid
			}
		}
	}
	return 0
}

// victims are processes of the scenario tiny, by what their command lines have.
var victims = map[string][]string{
	"spine0":     {"\x00switch\x00", "/spine0.sock"},
	"tor0":       {"\x00switch\x00", "/tor0.sock"},
	"h0":         {"\x00agent\x00", "/h0.sock"},
	"controller": {"\x00controller\x00", "/controller.sock"},
}

// shortTemp sets TMPDIR to a new folder whose sockets have short paths.
func shortTemp(t *testing.T) {
	t.Helper()
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
}

// TestLostInRun kills a process of the fabric in the middle of a run: the run ends with an error that names it, and
// without a result.
func TestLostInRun(t *testing.T) {
	systemtest.Only(t)
	shortTemp(t)
	bin := etherealtest.Binary(t)
	scenario := filepath.Join(t.TempDir(), "tiny.yaml")
	text := strings.Replace(tiny, "bytes: 4MB", "bytes: 40MB", 1) // some seconds
	if err := os.WriteFile(scenario, []byte(text[:strings.Index(text, "failures:")]+"deadline: 30s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, words := range victims {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, events := filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "events.jsonl")
			var said output
			cmd := exec.Command(bin, "run", "--world", "live", scenario, "--out", out, "--events", events, "-q")
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var ended error
			done := make(chan struct{})
			go func() { ended = cmd.Wait(); close(done) }()
			pid := 0
			until(t, "the run goes on", func() bool {
				select {
				case <-done:
					skipWithoutNamespaces(t, said.String())
					t.Fatalf("the run ended early: %v\n%s", ended, said.String())
				default:
				}
				info, err := os.Stat(events)
				if err == nil && info.Size() > 0 {
					pid = descendant(cmd.Process.Pid, words...)
				}
				return pid != 0
			})
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-done
			if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("exit code %d, not 1", code)
			}
			if want := name + " has ended: signal: killed"; !strings.Contains(said.String(), want) {
				t.Errorf("%q is missing in\n%s", want, said.String())
			}
			if rows, err := os.ReadFile(out); err != nil || len(rows) > 0 {
				t.Errorf("there is a result: %s, %v", rows, err)
			}
		})
	}
}

// skipWithoutNamespaces skips the test if a program said that it may not make namespaces.
func skipWithoutNamespaces(t *testing.T, said string) {
	t.Helper()
	if strings.Contains(said, "no network namespaces") {
		t.Skip(said)
	}
}

// startUp starts `ethereal live up` with a small fabric, and returns what it says.
func startUp(t *testing.T, bin string, args ...string) (*exec.Cmd, *output) {
	t.Helper()
	spec := filepath.Join(t.TempDir(), "fabric.yaml")
	text := "kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: 1\n"
	for _, link := range []string{"host_link", "tor_uplink"} {
		text += fmt.Sprintf("%s: {rate: 100Mb/s, delay: 10us}\n", link)
	}
	if err := os.WriteFile(spec, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &output{}
	up := exec.Command(bin, append([]string{"live", "up", "--fabric", spec}, args...)...)
	up.Stdout, up.Stderr = said, said
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { up.Wait(); close(done) }() //nolint:errcheck // however it ends
	t.Cleanup(func() {
		up.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended
		<-done
	})
	until(t, "the fabric is up", func() bool {
		select {
		case <-done:
			skipWithoutNamespaces(t, said.String())
			t.Fatalf("it ended:\n%s", said.String())
		default:
		}
		return strings.Contains(said.String(), "are up")
	})
	return up, said
}

// TestLostWhileUp: live up and live status name a process that has ended.
func TestLostWhileUp(t *testing.T) {
	systemtest.Only(t)
	shortTemp(t)
	bin := etherealtest.Binary(t)
	up, said := startUp(t, bin)
	if out, err := exec.Command(bin, "live", "status").CombinedOutput(); err != nil || !strings.Contains(string(out), "2 hosts and 4 switches") {
		t.Errorf("status: %v\n%s", err, out)
	}
	for name, words := range victims {
		pid := descendant(up.Process.Pid, words...)
		if pid == 0 {
			t.Fatalf("no process of %s", name)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		want := name + " has ended: signal: killed"
		until(t, "live up says "+want, func() bool { return strings.Contains(said.String(), want) })
		out, err := exec.Command(bin, "live", "status").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("status: %v\n%s", err, out)
		}
	}
	if out, err := exec.Command(bin, "live", "down").CombinedOutput(); err != nil {
		t.Errorf("down: %v\n%s", err, out)
	}
}
