//go:build linux

package live_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/etherealtest"
)

// verbsLibrary builds the library that RDMA programs have preloaded.
func verbsLibrary(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("no infiniband/verbs.h (Debian: libibverbs-dev)")
	}
	dir := "../../../hostagent/verbs/interpose/"
	sources, err := filepath.Glob(dir + "*.c")
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(t.TempDir(), "libethereal-verbs.so")
	args := append([]string{
		"-std=c11", "-O2", "-fPIC", "-shared", "-Wl,-soname,libethereal-verbs.so", "-Wl,--version-script=" + dir + "exports.map", "-o", lib,
	}, sources...)
	if out, err := exec.Command("cc", append(args, "-lpthread")...).CombinedOutput(); err != nil {
		t.Skipf("no C compiler that builds the library: %v %s", err, out)
	}
	return lib
}

// exploring brings a fabric up until the test ends, and returns what makes commands of `ethereal live`.
func exploring(t *testing.T, fabric string) func(args ...string) *exec.Cmd {
	t.Helper()
	bin, lib := etherealtest.Binary(t), verbsLibrary(t)
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, bin, append([]string{"live"}, args...)...)
		c.Env = append(os.Environ(), "TMPDIR="+tmp, "ETHEREAL_VERBS_LIBRARY="+lib)
		return c
	}
	file := filepath.Join(tmp, "fabric.yaml")
	if err := os.WriteFile(file, []byte(fabric), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	up := command("up", "--fabric", file, "--payload", "2048")
	up.Stderr = &log
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := out.Read(make([]byte, 1)); n == 0 {
		up.Wait() //nolint:errcheck // it has failed
		if text := log.String(); strings.Contains(text, "no network namespaces") || strings.Contains(text, "operation not permitted") {
			t.Skipf("no namespaces here: %s", text)
		}
		t.Fatalf("live up: %s", log.String())
	}
	t.Cleanup(func() {
		command("down").Run() //nolint:errcheck // Wait tells
		if err := up.Wait(); err != nil {
			t.Errorf("live up: %v %s", err, log.String())
		}
	})
	return command
}

// limit is how long a fabric is up, at most.
const limit = 8 * time.Minute

// leafSpine is a fabric of two ToRs and two spines.
func leafSpine(hostsPerToR int) string {
	return fmt.Sprintf("kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: %d\n"+
		"host_link: {rate: 100Mb/s}\ntor_uplink: {rate: 100Mb/s}\n", hostsPerToR)
}

// TestVerbs runs RDMA programs of Debian, as they are, between two hosts.
func TestVerbs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes: skipped with -short")
	}
	if _, err := exec.LookPath("ibv_rc_pingpong"); err != nil {
		t.Skip("no ibv_rc_pingpong (Debian: ibverbs-utils)")
	}
	command := exploring(t, leafSpine(1))
	for _, program := range []string{
		"ibv_rc_pingpong -g 0 -n 200 -e -c", "ibv_srq_pingpong -g 0 -n 200 -e -q 4", "ib_write_bw -F -n 100 -s 20000",
		"ib_send_bw -F -n 100 -s 20000", "ib_read_bw -F -n 50 -s 20000", "ib_atomic_bw -F -n 50", "ib_write_lat -F -n 50 -s 64",
	} {
		words := strings.Fields(program)
		t.Run(words[0], func(t *testing.T) {
			if _, err := exec.LookPath(words[0]); err != nil {
				t.Skip("not installed (Debian: perftest)")
			}
			var said [2]bytes.Buffer
			server := command(append([]string{"exec", "h0", "--"}, words...)...)
			server.Stdout, server.Stderr = &said[0], &said[0]
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			var err error
			for range 20 { // until the server listens
				time.Sleep(100 * time.Millisecond)
				client := command(append(append([]string{"exec", "h1", "--"}, words...), "10.0.0.2")...)
				said[1].Reset()
				client.Stdout, client.Stderr = &said[1], &said[1]
				if err = client.Run(); err == nil || !strings.Contains(said[1].String(), "onnect") {
					break
				}
			}
			if err != nil {
				server.Process.Kill() //nolint:errcheck // it has ended
			}
			if other := server.Wait(); err != nil || other != nil {
				t.Fatalf("client: %v, server: %v\n%s\n%s", err, other, said[1].String(), said[0].String())
			}
		})
	}
}
