package live_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view/browsertest"
	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestUpView: the page of a fabric in namespaces of its own is served to this machine's.
func TestUpView(t *testing.T) {
	systemtest.Only(t)
	bin := etherealtest.Binary(t)
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	fabric := filepath.Join(tmp, "fabric.yaml")
	if err := os.WriteFile(fabric, []byte("kind: leaf-spine\ntors: 2\nspines: 1\nhosts_per_tor: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+*watched)
	defer cancel()
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, bin, append([]string{"live"}, args...)...)
		c.Env = append(os.Environ(), "TMPDIR="+tmp)
		return c
	}
	up := command("up", "--fabric", fabric, "--view")
	log, err := os.Create(filepath.Join(tmp, "log")) // what it says is there before what it says later elsewhere
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	up.Stderr = log
	said := func() string {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := out.Read(make([]byte, 1)); n == 0 {
		up.Wait() //nolint:errcheck // it has failed
		if text := said(); strings.Contains(text, "no network namespaces") || strings.Contains(text, "operation not permitted") {
			t.Skipf("no namespaces here: %s", text)
		}
		t.Fatalf("live up: %s", said())
	}
	defer func() {
		command("down").Run() //nolint:errcheck // Wait reports
		if err := up.Wait(); err != nil {
			t.Errorf("live up: %v %s", err, said())
		}
	}()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/`).FindString(said())
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"n":"spine0"`)) {
		t.Errorf("%s, %v: %s", r.Status, err, text)
	}
	if *watched > 0 {
		watch(t, url, tmp, command("exec", "h0", "--", "ping", "-q", "-i", "0.2", "10.0.1.2"))
	}
}

var watched = flag.Duration("live.watch", 0, "of TestUpView: keep the page open so long, and say what memory it takes")

// watch keeps a page open, with some traffic, and says what memory it and the controller take.
func watch(t *testing.T, url, dir string, traffic *exec.Cmd) {
	b := browsertest.Open(t, *watched+time.Minute)
	if err := traffic.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		traffic.Process.Kill() //nolint:errcheck // it may have ended
		traffic.Wait()         //nolint:errcheck // it was killed
	}()
	if err := b.Run(browsertest.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; time.Sleep(min(time.Minute, *watched/2)) {
		var heap float64
		var ticks int
		if err := b.Run(browsertest.Evaluate(`performance.memory.usedJSHeapSize / 1e6`, &heap), browsertest.Evaluate(`runs[0].ticks.length`, &ticks)); err != nil {
			t.Fatal(err)
		}
		since := time.Since(began)
		t.Logf("after %v: %.1f MB of scripts' memory, %.1f MB of the tab, %d ticks; the controller has %.1f MB",
			since.Round(time.Second), heap, residentTab(t, b.PID()), ticks, resident(t, dir))
		if since >= *watched {
			break
		}
	}
	b.Check(t, url)
}

// resident returns the memory of the controller of a folder, in MB.
func resident(t *testing.T, dir string) float64 {
	kB := residentOf(t, func(_ string, line []byte) bool {
		return bytes.Contains(line, []byte(dir)) && bytes.Contains(line, []byte("\x00controller\x00"))
	})
	if kB == 0 {
		t.Error("there is no controller")
	}
	return kB / 1000
}

// residentTab returns the memory of the process that draws a browser's page, in MB: the largest that draws one, since
// Chromium keeps an empty one ready.
func residentTab(t *testing.T, browser int) float64 {
	kB := residentOf(t, func(pid string, line []byte) bool {
		if !bytes.Contains(line, []byte("--type=renderer")) {
			return false
		}
		for pid != strconv.Itoa(browser) {
			status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
			m := regexp.MustCompile(`PPid:\s+(\d+)`).FindSubmatch(status)
			if err != nil || m == nil {
				return false
			}
			pid = string(m[1])
		}
		return true
	})
	return kB / 1000
}

// residentOf returns the memory of the largest process that is meant, by their numbers and command lines, in kB.
func residentOf(t *testing.T, meant func(pid string, line []byte) bool) float64 {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var most float64
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil || !meant(filepath.Base(filepath.Dir(path)), line) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text); err == nil && m != nil {
			kB, _ := strconv.ParseFloat(string(m[1]), 64) // digits
			most = max(most, kB)
		}
	}
	return most
}
