//go:build linux

package live_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestConnections runs programs of Debian that connect by librdmacm, as they are, between two hosts.
func TestConnections(t *testing.T) {
	systemtest.Only(t)
	if _, err := exec.LookPath("rping"); err != nil {
		t.Skip("no rping (Debian: rdmacm-utils)")
	}
	spec := leafSpine(2, 1)
	command, dir := exploring(t, spec)
	for _, c := range []struct{ server, client string }{
		{"rping -s -a h0 -C 50 -V", "rping -c -a h0 -C 50 -V"},
		{"ucmatose -c 8", "ucmatose -c 8 -s h0"},
		{"udaddy -c 4", "udaddy -c 4 -s h0"},
		{"rdma_server", "rdma_client -s h0"},
		{"rdma_xserver -c r", "rdma_xclient -c r -s h0"},
		{"ib_write_bw -R -F -n 100 -s 20000", "ib_write_bw -R -F -n 100 -s 20000 h0"},
		{"ib_send_bw -R -F -n 100 -s 20000 -q 2", "ib_send_bw -R -F -n 100 -s 20000 -q 2 h0"},
		{"ib_read_lat -R -F -n 50", "ib_read_lat -R -F -n 50 h0"},
		{"rstream -T v -S 20000 -C 20 -I 5", "rstream -T v -S 20000 -C 20 -I 5 -s h0"},
		{"rstream -T n -S 20000 -C 20 -I 5", "rstream -T n -S 20000 -C 20 -I 5 -s h0"},
		{"riostream -S 20000 -C 5 -I 5", "riostream -S 20000 -C 5 -I 5 -s h0"},
	} {
		words := strings.Fields(c.server)
		t.Run(strings.Join(words[:min(3, len(words))], " "), func(t *testing.T) {
			couple(t, command, words, strings.Fields(c.client), nil)
		})
	}
	for _, c := range []string{"rstream -T v -S 65536 -C 100 -I 4", "ib_write_bw -R -F -n 400 -s 65536"} {
		words := strings.Fields(c)
		client := append(slices.Clone(words), "h0")
		if words[0] == "rstream" {
			client = append(slices.Clone(words), "-s", "h0")
		}
		t.Run("cut under "+words[0], func(t *testing.T) { testCut(t, command, spec, dir, words, client) })
	}
	t.Run("cut under iperf3", func(t *testing.T) {
		lib := os.Getenv("RSPRELOAD")
		if lib == "" {
			t.Skip("name a librspreload.so of rdma-core of 2026 or later in RSPRELOAD; the select of Debian 12's is not enough for iperf3")
		}
		// The library of connections beside it is as new.
		env := "LD_LIBRARY_PATH=" + filepath.Dir(lib) + ` LD_PRELOAD="$LD_PRELOAD ` + lib + `" exec iperf3 -p 7471 `
		testCut(t, command, spec, dir, []string{"sh", "-c", env + "-s -1"}, []string{"sh", "-c", env + "-c 10.0.0.2 -n 30M"})
	})
	t.Run("refused", func(t *testing.T) {
		out, err := command("exec", "h1", "--", "rping", "-c", "-a", "h0", "-C", "1").CombinedOutput()
		if !strings.Contains(string(out), "RDMA_CM_EVENT_REJECTED, error 8") {
			t.Errorf("%v %s", err, out)
		}
	})
	t.Run("no such host", func(t *testing.T) {
		out, err := command("exec", "h1", "--", "rping", "-c", "-a", "192.0.2.1", "-C", "1").CombinedOutput()
		if !strings.Contains(string(out), "RDMA_CM_EVENT_ADDR_ERROR") {
			t.Errorf("%v %s", err, out)
		}
	})
	t.Run("a server is killed", func(t *testing.T) { testKilled(t, command) })
}

// testCut cuts an uplink of the client's ToR under a transfer of 26 MB a direction, and repairs it when 4 MB more have
// gone by the other one. The program ends without an error.
func testCut(t *testing.T, command func(args ...string) *exec.Cmd, spec, dir string, server, client []string) {
	cuts := 0
	port := func(state string) {
		if out, err := command("exec", "tor1", "--", "ip", "link", "set", "tor1-2", state).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	cut := func(ended <-chan struct{}) {
		at := uplinks(t, spec, dir)
		// gone waits until as many bytes more have left by the uplinks from one on; false: the program has ended.
		gone := func(from int, bytes int64) bool {
			for {
				now, sum := uplinks(t, spec, dir), int64(0)
				for i := from; i < len(now); i++ {
					sum += now[i] - at[i]
				}
				select {
				case <-ended:
					return false
				case <-time.After(20 * time.Millisecond):
				}
				if sum >= bytes {
					at = now
					return true
				}
			}
		}
		if !gone(0, 2<<20) {
			return
		}
		port("down")
		defer port("up")
		if gone(1, 4<<20) {
			cuts++
		}
	}
	t.Log(couple(t, command, server, client, cut))
	if cuts == 0 {
		t.Error("the program ended before the uplink was cut, or while it was")
	}
}

// testKilled kills a server with a connection: its client ends.
func testKilled(t *testing.T, command func(args ...string) *exec.Cmd) {
	start := func(host, script string) (*exec.Cmd, *bufio.Reader) {
		c := command("exec", host, "--", "sh", "-c", script)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return c, bufio.NewReader(out)
	}
	server, said := start("h0", "rping -s -P -a h0 & echo $!; wait $!")
	pid, err := said.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	// Until it listens, clients are rejected and end.
	client, pings := start("h1", "until rping -c -a h0 -C 1; do sleep 0.1; done; exec rping -c -a h0 -v -C 100000000")
	if line, err := pings.ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if out, err := command("exec", "h0", "--", "kill", "-9", strings.TrimSpace(pid)).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for err == nil {
		_, err = pings.ReadString('\n')
	}
	client.Wait() //nolint:errcheck // that it ends is what matters
	server.Wait() //nolint:errcheck // it was killed
}

// oneMachine returns what runs a shell's script with a device that no fabric is needed for.
func oneMachine(t *testing.T) (run func(script string) (string, int)) {
	t.Helper()
	bin, lib := etherealtest.Binary(t), verbsLibrary(t)
	run = func(script string) (string, int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, "unshare", "-rn", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh", bin, "host", "nic", "--", "sh", "-c", script)
		c.Env = append(os.Environ(), "ETHEREAL_VERBS_LIBRARY="+lib)
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	if out, code := run("true"); code != 0 {
		if strings.Contains(out, "unshare") {
			t.Skipf("no namespaces here: %s", out)
		}
		t.Fatalf("%d %s", code, out)
	}
	return run
}

// TestDeviceOfOneMachine runs a server and its client with such a device.
func TestDeviceOfOneMachine(t *testing.T) {
	systemtest.Only(t)
	if _, err := exec.LookPath("rping"); err != nil {
		t.Skip("no rping (Debian: rdmacm-utils)")
	}
	const pings = "rping -s -a 127.0.0.1 -C 10 & for k in $(seq 50); do rping -c -a 127.0.0.1 -v -C 10 && exit 7; sleep 0.1; done"
	if out, code := oneMachine(t)(pings); code != 7 || !strings.Contains(out, "rdma-ping-9") {
		t.Errorf("%d %s", code, out)
	}
}

// TestEvents: a completion queue ends with its events, when the program has acknowledged those that it has read.
func TestEvents(t *testing.T) {
	systemtest.Only(t)
	run := oneMachine(t)
	program := filepath.Join(t.TempDir(), "events")
	build := exec.Command("cc", "-o", program, "../../../roce/device/testdata/events.c", "-libverbs", "-lpthread")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v %s", err, out)
	}
	if out, code := run(program); code != 0 || !strings.Contains(out, "no errors") {
		t.Errorf("%d %s", code, out)
	}
}
