package gnmi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// client returns others' gNMI client, which an environment variable names, or the
// path has. It skips the test where it is missing.
func client(t *testing.T, variable, name, build string) string {
	t.Helper()
	return systemtest.Program(t, name, variable, fmt.Sprintf("set %s to it (go build -modfile=.ci/%s)", variable, build))
}

// twoPorts serves a switch's two ports on loopback.
func twoPorts(t *testing.T) (ports *portstate.Ports, mu *sync.Mutex, addr string) {
	t.Helper()
	now := func() int64 { return time.Now().UnixNano() }
	ports, err := portstate.New([]portstate.Config{{Name: "Ethernet1", Number: 1}, {Name: "Ethernet2", Number: 2}})
	if err != nil {
		t.Fatal(err)
	}
	gn, err := gnmi.New(gnmi.Config{Ports: ports, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mu = new(sync.Mutex)
	shell := gnmi.NewServer(mu, gn)
	gs := grpc.NewServer(rpc.Options(rpc.Budget{}, nil)...)
	shell.Register(gs)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = gs.Serve(lis) })
	done.Go(func() { _ = shell.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		gs.Stop()
		done.Wait()
	})
	return ports, mu, lis.Addr().String()
}

// lines starts a client that prints as it receives, and returns what waits for a line
// with two texts in it: a client's own, and the one asked for.
func lines(t *testing.T, client *exec.Cmd, always string) (expect func(want string)) {
	t.Helper()
	out, err := client.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	printed := make(chan string)
	go func() { // ends with the process
		defer close(printed)
		for s := bufio.NewScanner(out); s.Scan(); {
			printed <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = client.Process.Kill()
		for range printed { // until its reader ends
		}
		_ = client.Wait()
	})
	return func(want string) {
		t.Helper()
		for timeout := time.After(20 * time.Second); ; {
			select {
			case line, ok := <-printed:
				if !ok {
					t.Fatalf("%s ended before it printed %q", client.Path, want)
				}
				if strings.Contains(line, always) && strings.Contains(line, want) {
					return
				}
			case <-timeout:
				t.Fatalf("%s did not print %q", client.Path, want)
			}
		}
	}
}

// gnmicServer serves two ports and returns a function that makes a gnmic command
// for them.
func gnmicServer(t *testing.T) (ports *portstate.Ports, mu *sync.Mutex, gnmic func(args ...string) *exec.Cmd) {
	t.Helper()
	path := client(t, "GNMIC", "gnmic", "gnmic/go.mod github.com/openconfig/gnmic")
	ports, mu, addr := twoPorts(t)
	return ports, mu, func(args ...string) *exec.Cmd {
		all := append([]string{"--address", addr, "--insecure", "--timeout", "20s", "--log=false"}, args...)
		return exec.CommandContext(t.Context(), path, all...)
	}
}

const (
	enabled = "/interfaces/interface[name=Ethernet1]/config/enabled"
	oper    = "/interfaces/interface[name=*]/state/oper-status"
)

// TestGnmic drives the gNMI server with a client that others wrote.
func TestGnmic(t *testing.T) {
	ports, mu, gnmic := gnmicServer(t)
	run := func(want string, args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		cmd := gnmic(args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("gnmic %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
		} else if !strings.Contains(string(out), want) {
			t.Errorf("gnmic %s: no %q in\n%s", strings.Join(args, " "), want, out)
		}
	}
	run("openconfig-interfaces", "capabilities")
	for _, encoding := range []string{"json_ietf", "proto"} {
		run(`"UP"`, "get", "--encoding", encoding, "--path", oper)
	}
	run("Ethernet2", "get", "--encoding", "json_ietf", "--path", "/interfaces")
	run("UPDATE", "set", "--encoding", "json_ietf", "--update-path", enabled, "--update-value", "false")
	mu.Lock()
	p, _ := ports.Port(1)
	mu.Unlock()
	if p.Enabled || p.Oper {
		t.Errorf("after the set: %+v", p)
	}
	run(`"DOWN"`, "get", "--encoding", "json_ietf", "--path", oper)
	run("REPLACE", "set", "--encoding", "json_ietf", "--replace-path", enabled, "--replace-value", "true")
	run(`"UP"`, "subscribe", "--encoding", "json_ietf", "--mode", "once", "--path", oper)
	if out, err := gnmic("set", "--encoding", "json_ietf", "--update-path", "/interfaces/interface[name=Ethernet9]/config/enabled", "--update-value", "true").CombinedOutput(); err == nil {
		t.Errorf("gnmic sets a port that does not exist:\n%s", out)
	}
}

// TestGnmicStream: changes and heartbeats reach a streaming subscriber.
func TestGnmicStream(t *testing.T) {
	ports, mu, gnmic := gnmicServer(t)
	cmd := gnmic("subscribe", "--encoding", "json_ietf", "--mode", "stream", "--stream-mode", "on_change",
		"--heartbeat-interval", "300ms", "--path", "/interfaces/interface[name=Ethernet2]/state/oper-status", "--format", "flat")
	expect := lines(t, cmd, "oper-status")
	expect("UP")
	expect("UP") // a heartbeat
	mu.Lock()
	err := ports.SetOper(2, false, time.Now().UnixNano())
	mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	expect("DOWN")
	expect("DOWN")
}
