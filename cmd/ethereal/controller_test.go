package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// labCA has scripts/lab-ca make an authority and a certificate for 127.0.0.1, and
// returns the flags that name the files.
func labCA(t *testing.T, dir string) []string {
	t.Helper()
	systemtest.Program(t, "openssl", "", "apt-get install openssl")
	out, err := exec.CommandContext(t.Context(), "../../scripts/lab-ca", dir,
		"controller+operator@node,127.0.0.1", "host@h0,127.0.0.1").CombinedOutput()
	if err != nil {
		t.Fatalf("lab-ca: %v\n%s", err, out)
	}
	return []string{
		"--tls-ca=" + filepath.Join(dir, "ca.pem"), "--tls-cert=" + filepath.Join(dir, "node.pem"), "--tls-key=" + filepath.Join(dir, "node.key"),
	}
}

// TestLabCA makes certificates with the script as its page says, and sees it refuse
// what it cannot do.
func TestLabCA(t *testing.T) {
	dir := t.TempDir()
	labCA(t, dir)
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "../../scripts/lab-ca", args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run(dir, "tor0,10.0.0.1,fd00::1,tor0.lab"); err != nil || !strings.Contains(out, "DNS:tor0,IP:10.0.0.1,IP:fd00::1,DNS:tor0.lab") {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := certs.Read(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "tor0.pem"), filepath.Join(dir, "tor0.key"))
	if err != nil {
		t.Fatal(err)
	}
	leaf := files.Own[0].Leaf
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		for _, name := range []string{"tor0", "10.0.0.1", "fd00::1", "tor0.lab"} {
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: files.Roots, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: files.Roots, DNSName: "tor1", KeyUsages: []x509.ExtKeyUsage{usage}}); err == nil {
			t.Error("the certificate is good for any name")
		}
	}
	for _, args := range [][]string{{dir}, {dir, "ca"}, {dir, "../x"}, {dir, "a,$(b)"}, {dir, ""}} {
		if out, err := run(args...); err == nil || !strings.HasPrefix(out, "lab-ca: ") {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}

// tcpLab serves a fabric's switches on the loopback and returns the files that
// say so, and a function that sets the state of a switch's port.
func tcpLab(t *testing.T, tlsFlags []string) (files []string, setPort func(name string, port uint32, up bool)) {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := program.Load(p4src.V1ModelJSON())
	if err != nil {
		t.Fatal(err)
	}
	var pki *certs.Files
	if len(tlsFlags) > 0 {
		var values []string
		for _, flag := range tlsFlags {
			_, value, _ := strings.Cut(flag, "=")
			values = append(values, value)
		}
		if pki, err = certs.Read(values[0], values[1], values[2]); err != nil {
			t.Fatal(err)
		}
	} else {
		pki = &certs.Files{}
	}
	var targets strings.Builder
	targets.WriteString("switches:\n")
	type state struct {
		mu    sync.Mutex
		ports *portstate.Ports
	}
	switches := map[string]*state{}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		s := &state{}
		var configs []portstate.Config
		for p := 1; p <= f.Node(id).Ports(); p++ {
			configs = append(configs, portstate.Config{Name: linkstate.PortName(fabric.PortNo(p)), Number: uint32(p)})
		}
		if s.ports, err = portstate.New(configs); err != nil {
			t.Fatal(err)
		}
		now := func() int64 { return time.Now().UnixNano() }
		core, err := p4runtime.New(p4runtime.Config{
			DeviceID: uint64(id) + 1, Ports: s.ports, Now: now, Load: func([]byte) (*program.Program, error) { return compiled, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		gn, err := gnmi.New(gnmi.Config{Ports: s.ports, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Skipf("no TCP on the loopback: %v", err)
		}
		srv := grpc.NewServer(append(rpc.Options(rpc.Budget{}, nil), grpc.Creds(pki.Server()))...)
		p4rt, telemetry := p4runtime.NewServer(&s.mu, core), gnmi.NewServer(&s.mu, gn)
		p4rt.Register(srv)
		telemetry.Register(srv)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { p4rt.Run(ctx) })
		wg.Go(func() { telemetry.Run(ctx) })
		wg.Go(func() { srv.Serve(lis) })
		t.Cleanup(func() { cancel(); srv.Stop(); wg.Wait() })
		fmt.Fprintf(&targets, "  %s: {p4runtime: '%s'}\n", f.Name(id), lis.Addr())
		switches[f.Name(id)] = s
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files = []string{
		"--fabric=" + write("fabric.yaml", "kind: leaf-spine\ntors: 3\nspines: 2\nhosts_per_tor: 1\n"),
		"--targets=" + write("targets.yaml", targets.String()),
	}
	return files, func(name string, port uint32, up bool) {
		s := switches[name]
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.ports.SetOper(port, up, time.Now().UnixNano()); err != nil {
			t.Fatal(err)
		}
	}
}

// etherealCommand runs a command line to its end.
func etherealCommand(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, version: "test"}
	code = a.execute(ctx, args)
	return code, out.String(), errs.String()
}

// freePort returns an address of the loopback on which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		// Below those that the system gives to others: what it gave us it might give them, too, before we listen.
		lis, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12_000+rand.IntN(20_000)))
		if err == nil {
			defer lis.Close()
			return lis.Addr().String()
		}
	}
	t.Skip("no TCP on the loopback")
	return ""
}

// TestController programs a fabric over TCP, proves its tables, looks at it,
// drains a switch, and ends, with mutual TLS and without.
func TestController(t *testing.T) {
	for _, mutual := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", mutual), func(t *testing.T) {
			dir := t.TempDir()
			var tlsFlags []string
			if mutual {
				tlsFlags = labCA(t, dir)
			}
			files, setPort := tcpLab(t, tlsFlags)
			files = append(files, tlsFlags...)
			token := filepath.Join(dir, "token")
			if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			run := func(want int, args ...string) string {
				t.Helper()
				code, out, errs := etherealCommand(ctx, args...)
				if code != want {
					t.Fatalf("ethereal %v: exit code %d, want %d\n%s%s", args[0], code, want, out, errs)
				}
				return out + errs
			}
			with := func(args ...string) []string { return append(args, files...) }
			admin := freePort(t)
			client := append([]string{"--admin=" + admin}, tlsFlags...)
			asks := func(args ...string) []string { return append(args, client...) }

			if out := run(exitRun, with("verify")...); !strings.Contains(out, "does not run the pipeline") {
				t.Errorf("verify before anything: %s", out)
			}
			if out := run(exitOK, with("controller", "--dry-run")...); !strings.Contains(out, "tor0: push pipeline") {
				t.Errorf("dry run: %s", out)
			}
			run(exitRun, asks("status")...)

			running, stop := context.WithCancel(ctx)
			ended := make(chan string, 1)
			go func() {
				code, _, errs := etherealCommand(running, with("controller", "--listen-admin="+admin, "--listen-agents="+freePort(t),
					"--admin-token-file="+token, "--event-log="+filepath.Join(dir, "events.jsonl"))...)
				ended <- fmt.Sprintf("exit code %d\n%s", code, errs)
			}()
			defer func() {
				stop()
				if s := <-ended; !strings.HasPrefix(s, "exit code 0\n") {
					t.Errorf("controller: %s", s)
				}
				run(exitOK, with("verify")...) // the switches go on as they are
			}()
			until := func(what string, args ...string) {
				t.Helper()
				deadline := time.Now().Add(2 * time.Minute)
				for {
					code, out, errs := etherealCommand(ctx, args...)
					if code == exitOK && strings.Contains(out, what) {
						return
					}
					if time.Now().After(deadline) {
						t.Fatalf("no %q in: %s%s", what, out, errs)
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
			until(", ready, ", asks("status")...)
			if out := run(exitOK, with("verify")...); !strings.Contains(out, "proved") {
				t.Errorf("verify: %s", out)
			}
			if out := run(exitOK, with("controller", "--dry-run")...); !strings.Contains(out, "0 updates of 5 switches") {
				t.Errorf("dry run: %s", out)
			}
			setPort("tor0", 2, false)
			until("1 of 9 links not up", asks("status")...)
			until("proved", with("verify")...)
			setPort("tor0", 3, false)
			until("2 of 9 links not up", asks("status")...)
			if out := run(exitRun, with("verify", "--problems=4")...); !strings.Contains(out, "4 of 6 pairs of ToRs have no live path") ||
				!strings.Contains(out, "tor0 to tor1, tor0 to tor2, tor1 to tor0, tor2 to tor0; see") {
				t.Errorf("verify without an uplink of tor0: %s", out)
			}
			if out := run(exitRun, with("verify", "--problems=1")...); !strings.Contains(out, "tor0 to tor1, ...; see") {
				t.Errorf("verify without an uplink of tor0: %s", out)
			}
			setPort("tor0", 3, true)
			setPort("tor0", 2, true)
			until("0 of 9 links not up", asks("status")...)
			until("proved", with("verify")...)

			run(exitRun, asks("drain", "spine1")...)
			if out := run(exitOK, append([]string{"__complete"}, append(asks("drain"), "")...)...); !strings.Contains(out, "tor2-spine1\n") || !strings.Contains(out, "\nspine1\n") || strings.Contains(out, "h0") {
				t.Errorf("completion of drain: %s", out)
			}
			if out := run(exitOK, asks("drain", "spine1", "--admin-token-file="+token)...); !strings.Contains(out, "tor2-spine1") {
				t.Errorf("drain: %s", out)
			}
			if out := run(exitOK, asks("status")...); !strings.Contains(out, "drained") {
				t.Errorf("status: %s", out)
			}
			run(exitRun, with("verify")...)
			run(exitOK, with("verify", "--drained=tor0-spine1,tor1-spine1,tor2-spine1")...)
			if out := run(exitRun, asks("drain", "tor0-spine0", "--admin-token-file="+token)...); !strings.Contains(out, "lose their last path") {
				t.Errorf("drain of the last path: %s", out)
			}
			run(exitOK, asks("drain", "spine1", "--undo", "--admin-token-file="+token)...)
			if text, err := os.ReadFile(filepath.Join(dir, "events.jsonl")); err != nil || !bytes.Contains(text, []byte(`"kind":"drain"`)) {
				t.Errorf("event log: %v\n%s", err, text)
			}
		})
	}
}

func TestControllerInput(t *testing.T) {
	files, _ := tcpLab(t, nil)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"controller"}, `required flag(s) "fabric", "targets" not set`},
		{[]string{"controller", "--fabric=nowhere.yaml", "--targets=x"}, "nowhere.yaml"},
		{append([]string{"controller", "--election-id=0"}, files...), "must be above 0"},
		{append([]string{"controller", "--listen-agents=0.0.0.0:0"}, files...), "not on the loopback"},
		{append([]string{"controller", "--listen-admin=:0"}, files...), "not on the loopback"},
		{append([]string{"controller", "--listen-admin=", "--listen-agents=", "--listen-view=:0"}, files...), "is not a loopback address"},
		{append([]string{"controller", "--listen-admin=", "--listen-agents=", "--listen-view=fd:1"}, files...), "no descriptor that can be passed on"},
		{append([]string{"controller", "--tls-cert=x"}, files...), "go together"},
		{append([]string{"controller", "--p4info=x"}, files...), "go together"},
		{append([]string{"controller", "--log-level=loud"}, files...), "none of debug"},
		{[]string{"drain"}, "name one LINK"},
	} {
		code, out, errs := etherealCommand(context.Background(), tt.args...)
		if code != exitInput || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, %s%s, want %q", tt.args, code, out, errs, tt.want)
		}
	}
}
