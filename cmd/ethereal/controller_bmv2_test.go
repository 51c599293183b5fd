package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/targets/bmv2"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestControllerBMv2 has BMv2's own switches programmed, proves their tables by
// read-back, and sees that a second controller finds nothing to write. It needs
// simple_switch_grpc, in the variable BMV2 or on the path.
func TestControllerBMv2(t *testing.T) {
	binary := systemtest.Program(t, "simple_switch_grpc", "BMV2", "name BMv2's in BMV2 or have it on the path")
	dir := t.TempDir()
	var targets strings.Builder
	targets.WriteString("switches:\n")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, name := range []string{"tor0", "tor1", "spine0", "spine1"} {
		addr := freePort(t)
		_, thrift, err := net.SplitHostPort(freePort(t))
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(thrift)
		if err != nil {
			t.Fatal(err)
		}
		args := append([]string{"--no-p4", "--device-id", fmt.Sprint(i + 1)}, bmv2.ThriftOptions(binary, port)...)
		cmd := exec.CommandContext(ctx, binary, append(args, "--", "--grpc-server-addr", addr)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cancel()
			cmd.Wait() // it was killed
		}()
		fmt.Fprintf(&targets, "  %s: {p4runtime: '%s', gnmi: none, device_id: %d}\n", name, addr, i+1)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := []string{
		"--fabric=" + write("fabric.yaml", "kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: 1\n"),
		"--targets=" + write("targets.yaml", targets.String()),
	}
	for _, want := range []string{"tables repaired", "tables as desired"} {
		admin := freePort(t)
		running, stop := context.WithCancel(ctx)
		ended := make(chan string, 1)
		go func() {
			_, _, errs := etherealCommand(running, append([]string{"controller", "--listen-agents=", "--listen-admin=" + admin}, files...)...)
			ended <- errs
		}()
		deadline := time.Now().Add(time.Minute)
		for {
			code, out, _ := etherealCommand(ctx, "status", "--admin="+admin)
			if code == exitOK && strings.Contains(out, ", ready, ") {
				break
			}
			if time.Now().After(deadline) {
				stop()
				t.Fatalf("not ready:\n%s", <-ended)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if code, out, errs := etherealCommand(ctx, append([]string{"verify"}, files...)...); code != exitOK {
			t.Errorf("verify: %s%s", out, errs)
		}
		for _, args := range [][]string{{"read", "route_v4"}, {"counters", "--zero", "port_tx_data"}} {
			args = slices.Concat([]string{"p4rt"}, args, []string{"--target=tor0"}, files)
			if code, out, errs := etherealCommand(ctx, args...); code != exitOK || !strings.Contains(out, args[len(args)-4]) {
				t.Errorf("%v: %s%s", args, out, errs)
			}
		}
		stop()
		if log := <-ended; strings.Count(log, want) != 4 {
			t.Errorf("%q is not said of all switches:\n%s", want, log)
		}
	}
}
