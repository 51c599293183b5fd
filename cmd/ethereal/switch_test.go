package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// The command lines of p4lang's Mininet scripts and of the P4 tutorials.
func TestSwitchOptions(t *testing.T) {
	dir := t.TempDir()
	base := switchOptions{
		maxPorts: 512, useFiles: -1, logLevel: "trace", grpcAddr: defaultGRPCAddr, dropPort: 511, queues: 8,
		queueDepth: 64, portEvents: "auto", restrictions: "auto", coalesce: 50, datapath: "interpreter",
	}
	with := func(f func(*switchOptions)) *switchOptions {
		o := base
		f(&o)
		return &o
	}
	tests := []struct {
		args string
		want *switchOptions
	}{
		{"-i 1@s1-eth1 -i 2@s1-eth2 --thrift-port 9090 --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 p.json --debugger --log-console",
			with(func(o *switchOptions) {
				o.interfaces = []switchInterface{{1, "s1-eth1"}, {2, "s1-eth2"}}
				o.thriftPort, o.json, o.logConsole = 9090, "p.json", true
				o.notes = []string{"--nanolog", "--debugger", "--thrift-port"}
			})},
		{"-i1@s1-eth1 --pcap " + dir + " --device-id 3 p.json --log-file x.log --log-flush -L debug -- --insecure --grpc-server-addr 0.0.0.0:50051",
			with(func(o *switchOptions) {
				o.interfaces = []switchInterface{{1, "s1-eth1"}}
				o.pcap, o.deviceID, o.json, o.logFile, o.logLevel = dir, 3, "p.json", "x.log", "debug"
				o.grpcAddr, o.insecure, o.notes = "0.0.0.0:50051", true, []string{"--log-flush", "0.0.0.0:50051 is served"}
			})},
		{"--no-p4 --pcap p.json -- --cpu-port 255 --drop-port=510 --priority-queues 4 --disable-swap",
			with(func(o *switchOptions) {
				o.noP4, o.pcap, o.cpuPort, o.dropPort, o.queues = true, ".", 255, 510, 4
				o.notes = []string{"--disable-swap", "p.json"}
			})},
		{"--no-p --device 0x10 --grpc-server-ssl --grpc-server-cert=c --grpc-server-key k",
			with(func(o *switchOptions) {
				o.noP4, o.deviceID, o.grpcTLS, o.grpcCert, o.grpcKey = true, 16, true, "c", "k"
			})},
		{"p.json --coalesce 0 --queue-depth 5 --queue-rate 100 --max-passes 300 --max-loops 9 --p4info i.txtpb --port-events off --ethernet-names",
			with(func(o *switchOptions) {
				o.json, o.coalesce, o.queueDepth, o.queueRate, o.p4info = "p.json", 0, 5, 100, "i.txtpb"
				o.maxPasses, o.maxLoops = 300, 9
				o.portEvents, o.ethernetName = "off", true
			})},
		{"p.json -i 132@eth1 --port-name 132@1/0", with(func(o *switchOptions) {
			o.json, o.interfaces, o.portNames = "p.json", []switchInterface{{132, "eth1"}}, map[uint32]string{132: "1/0"}
		})},
		{"p.json --datapath auto --pcap", with(func(o *switchOptions) { o.json, o.datapath, o.pcap = "p.json", "auto", "." })},
		{"p.json --datapath auto --queue-rate 9", with(func(o *switchOptions) {
			o.json, o.queueRate, o.notes = "p.json", 9, []string{"--datapath auto is interpreter with --queue-rate"}
		})},
	}
	begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
	for _, tt := range tests {
		got, err := parseSwitchOptions(strings.Fields(tt.args))
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(switchOptions{}, switchInterface{}), cmpopts.IgnoreFields(switchOptions{}, "notes")); diff != "" {
			t.Errorf("%s: %s", tt.args, diff)
		}
		if diff := cmp.Diff(tt.want.notes, got.notes, begins); diff != "" {
			t.Errorf("%s: notes: %s", tt.args, diff)
		}
	}
}

func TestSwitchOptionErrors(t *testing.T) {
	for args, want := range map[string]string{
		"":                                     "--no-p4",
		"--no-such":                            "no flag --no-such",
		"-x":                                   "no flag -x",
		"--log":                                "--log-console, --log-file",
		"-i":                                   "needs a value",
		"-i 1":                                 "PORT@IFACE",
		"-i x@y p.json":                        "not a number",
		"-i 1@a -i 1@b p.json":                 "both a and b",
		"-i 5@a p.json -- --cpu-port 5":        "--cpu-port 5",
		"a.json b.json":                        "one program",
		"p.json --cpu-port 0":                  "not a port number",
		"p.json --device-id 1 --device-id 2":   "twice",
		"p.json --log-console --log-file x":    "exclude",
		"p.json --log-level loud":              "loud",
		"p.json --no-p4=yes":                   "takes no value",
		"p.json --grpc-server-ssl":             "--grpc-server-cert",
		"p.json --grpc-server-key k":           "--grpc-server-ssl",
		"p.json --packet-in ipc:///x":          "nanomsg",
		"p.json --pcap=/no/such/directory":     "/no/such/directory",
		"p.json --max-port-count 0 -i 1@a":     "--max-port-count",
		"--no-p4 --p4info x":                   "needs the program's JSON",
		"p.json --priority-queues 0":           "less than 1",
		"p.json --use-files -1":                "less than 0",
		"p.json --datapath xdp":                "one of interpreter, kernel, tofino-model, auto",
		"p --datapath kernel --use-files 0":    "--use-files",
		"p --datapath kernel --packet-trace f": "--packet-trace",
		"p --datapath kernel --queue-rate 9":   "--queue-rate",
		"p.json --grpc-server-ssl --grpc-server-cert c --grpc-server-key k --grpc-server-with-client-auth": "cacert",
	} {
		if _, err := parseSwitchOptions(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, not %q", args, err, want)
		}
	}
}

func FuzzSwitchOptions(f *testing.F) {
	f.Add("-i 1@a --pcap=. p.json -- --cpu-port 255")
	f.Add("--log-f x -L debug --no-p4")
	f.Fuzz(func(_ *testing.T, line string) {
		parseSwitchOptions(strings.Fields(line)) //nolint:errcheck // it must not panic
	})
}

func TestSwitchInvocation(t *testing.T) {
	got, ok := switchInvocation([]string{"/usr/bin/simple_switch_grpc", "--no-p4"})
	if diff := cmp.Diff([]string{"switch", "--as-simple-switch", "--no-p4"}, got); !ok || diff != "" {
		t.Error(ok, diff)
	}
	if _, ok := switchInvocation([]string{"ethereal", "switch"}); ok {
		t.Error("ethereal is taken for simple_switch_grpc")
	}
	if _, ok := switchInvocation(nil); ok {
		t.Error("nothing is taken for simple_switch_grpc")
	}
}

// Nobody beyond this machine is served by accident.
func TestSwitchTrust(t *testing.T) {
	tls := " --grpc-server-ssl --grpc-server-cert c --grpc-server-key k"
	for args, want := range map[string]string{
		"":                                    "",
		"--grpc-server-addr localhost:1":      "",
		"--grpc-server-addr [::1]:1":          "",
		"--grpc-server-addr unix:/x":          "",
		"--grpc-server-addr 0.0.0.0:1":        "refused",
		"--grpc-server-addr :1":               "refused",
		"--grpc-server-addr 10.0.0.1:1" + tls: "refused",
		"--grpc-server-addr 10.0.0.1:1 --grpc-server-cacert a --grpc-server-with-client-auth" + tls: "",
		"--grpc-server-addr 0.0.0.0:1 --insecure":                                                   "said",
		"--as-simple-switch --grpc-server-addr 0.0.0.0:1":                                           "said",
	} {
		o, err := parseSwitchOptions(strings.Fields("--no-p4 " + args))
		got := ""
		switch {
		case err != nil && strings.Contains(err.Error(), "--insecure"):
			got = "refused"
		case err != nil:
			got = err.Error()
		case len(o.notes) > 0 && strings.Contains(o.notes[0], "anybody who reaches it may write"):
			got = "said"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", args, got, want)
		}
	}
}

// A UNIX socket is its owner's alone, whatever the umask.
func TestSwitchSocketMode(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	stop := runSwitchCommand(t, "--no-p4", "--grpc-server-addr", "unix:"+socket)
	info, err := os.Stat(socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	if _, err := stop(); err != nil {
		t.Error(err)
	}
}

// runSwitchCommand runs `ethereal switch` in this process until stop is
// called; stop returns the error and what was written.
func runSwitchCommand(t *testing.T, args ...string) (stop func() (string, error)) {
	t.Helper()
	c := newSwitchCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	var out bytes.Buffer
	ready, w := newReadyWriter(&out)
	c.SetArgs(args)
	c.SetOut(w)
	c.SetErr(w)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		done <- err
	case <-time.After(10 * time.Second):
		t.Error("the switch does not say that it listens")
	}
	return func() (string, error) {
		cancel()
		err := <-done
		return out.String(), err
	}
}

// readyWriter closes a channel when the switch listens. One goroutine writes.
type readyWriter struct {
	out       *bytes.Buffer
	ready     chan struct{}
	listening bool
}

func newReadyWriter(out *bytes.Buffer) (<-chan struct{}, *readyWriter) {
	w := &readyWriter{out: out, ready: make(chan struct{})}
	return w.ready, w
}

func (w *readyWriter) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if !w.listening && strings.Contains(w.out.String(), "Server listening on ") {
		w.listening = true
		close(w.ready)
	}
	return n, err
}

const lpmJSON = "../../p4switch/process/testdata/lpm.json"

// A switch without interfaces starts with a program or without, says what it
// ignores, and ends without an error when asked to.
func TestSwitchStarts(t *testing.T) {
	if _, err := os.Stat("/proc/net/netlink"); err != nil {
		t.Skip("no netlink here")
	}
	for name, args := range map[string][]string{
		"no program": {"--no-p4", "--grpc-server-addr", "127.0.0.1:0", "--debugger"},
		"program":    {lpmJSON, "--grpc-server-addr", "unix:" + filepath.Join(t.TempDir(), "s"), "--debugger"},
		"p4info":     {lpmJSON, "--p4info", strings.Replace(lpmJSON, ".json", ".p4info.txtpb", 1), "--grpc-server-addr=127.0.0.1:0", "--debugger"},
	} {
		out, err := runSwitchCommand(t, args...)()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if strings.Count(out, "--debugger has no effect") != 1 {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestSwitchFails(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"no-such.json":      {"no-such.json"},
		"bad.json":          {bad, "--use-files", "0"},
		"no-such-interface": {"--no-p4", "-i", "1@no-such-interface"},
		"--p4info":          {lpmJSON, "--p4info", bad},
	} {
		_, err := runSwitchCommand(t, args...)()
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, errRun) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Scripts that wait for the Thrift port find somebody there.
func TestSwitchThriftPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, number, _ := strings.Cut(addr, ":")
	stop := runSwitchCommand(t, "--no-p4", "--grpc-server-addr", "127.0.0.1:0", "--thrift-port", number)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
	} else {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read: %v", err)
		}
		c.Close() //nolint:errcheck // it is closed on the other side
	}
	if out, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// With client authentication only a client with a certificate is answered.
func TestSwitchTLS(t *testing.T) {
	dir := t.TempDir()
	controller := func(c *x509.Certificate) { c.URIs = []*url.URL{certs.Identity{Role: certs.Controller}.URI()} }
	ca := certstest.Issue(t, dir, "ca", nil, nil)
	certstest.Issue(t, dir, "server", ca, controller)
	client := certstest.Issue(t, dir, "client", ca, controller)
	socket := filepath.Join(dir, "grpc")
	stop := runSwitchCommand(t, "--no-p4", "--grpc-server-addr", "unix:"+socket, "--grpc-server-ssl",
		"--grpc-server-cacert", filepath.Join(dir, "ca.pem"), "--grpc-server-cert", filepath.Join(dir, "server.pem"),
		"--grpc-server-key", filepath.Join(dir, "server.key"), "--grpc-server-with-client-auth")
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	ask := func(creds credentials.TransportCredentials) error {
		conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(creds))
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // nothing is pending
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = p4.NewP4RuntimeClient(conn).Capabilities(ctx, &p4.CapabilitiesRequest{})
		return err
	}
	cfg := &tls.Config{RootCAs: roots, ServerName: "server", MinVersion: tls.VersionTLS12}
	if err := ask(credentials.NewTLS(cfg)); err == nil {
		t.Error("a client without a certificate is answered")
	}
	if err := ask(insecure.NewCredentials()); err == nil {
		t.Error("a client without TLS is answered")
	}
	cfg = cfg.Clone()
	cfg.Certificates = []tls.Certificate{*client}
	if err := ask(credentials.NewTLS(cfg)); err != nil {
		t.Error(err)
	}
	if out, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSwitchHelp(t *testing.T) {
	for args, want := range map[string]string{"--help": "--cpu-port PORT", "-v": "ethereal ", "--json-version": "2."} {
		c := newSwitchCommand()
		var out bytes.Buffer
		c.SetArgs([]string{args})
		c.SetOut(&out)
		if err := c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", args, err, &out)
		}
	}
}

// STF scripts from the command line: one that passes, one that does not.
func TestSwitchSTF(t *testing.T) {
	dir := t.TempDir()
	packet := "020000000001 020000000002 0800 45000014000000004011 0000 0a000001 0a000002"
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	add := "add ipv4_lpm hdr.ipv4.dst:0x0a000000/24 forward(dmac:0x020000000009, port:2)\n"
	add = strings.Replace(add, "hdr.", "", 1)
	good := write("good.stf", add+"packet 1 "+packet+"\nexpect 2 020000000009 020000000001 0800 45000014000000003f11 **** 0a000001 0a000002 $\n")
	bad := write("bad.stf", add+"packet 1 "+packet+"\nexpect 3 020000000009\n")
	run := func(scripts ...string) (string, error) {
		c := newSwitchCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		var out bytes.Buffer
		c.SetArgs(append([]string{"test", "--program", lpmJSON}, scripts...))
		c.SetOut(&out)
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := run(good); err != nil || !strings.Contains(out, "pass ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(good, bad); !errors.Is(err, errRun) || !strings.Contains(out, "FAIL ") ||
		!strings.Contains(out, "\n  way of line 2's packet: port 1: parser start") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPriorityQueues: v1model's eight priorities all have a queue, unless the switch stands in for BMv2, which has one.
func TestPriorityQueues(t *testing.T) {
	for line, want := range map[string]int{
		"--no-p4": 8, "--no-p4 --priority-queues 2": 2, "--" + bmv2Name + " --no-p4": 1, "--" + bmv2Name + " --no-p4 --priority-queues 8": 8,
	} {
		o, err := parseSwitchOptions(strings.Fields(line))
		if err != nil || o.queues != want {
			t.Errorf("%s: %v queues, %v; want %d", line, o.queues, err, want)
		}
	}
}

// TestSwitchAdmin: the status has what was dropped and why, and metrics say the same.
func TestSwitchAdmin(t *testing.T) {
	admin := freePort(t)
	stop := runSwitchCommand(t, "--no-p4", "--grpc-server-addr", "127.0.0.1:0", "--listen-admin", admin)
	for path, want := range map[string]string{
		"/healthz": "ok", "/status": `"dropped": []`, "/metrics": `ethereal_dataplane_packets_total{way="in"} 0`,
	} {
		r, err := http.Get("http://" + admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close() //nolint:errcheck // it was read
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %v, %v\n%s\nwant %q", path, r.Status, err, body, want)
		}
		if path == "/metrics" {
			monitored(t, "switches", string(body))
		}
	}
	if out, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	o, err := parseSwitchOptions([]string{"--no-p4", "--listen-admin", "192.0.2.1:9563"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.listenAdmin(&certs.Files{}); err == nil || !strings.Contains(err.Error(), "is not on the loopback") {
		t.Errorf("beyond the loopback without certificates: %v", err)
	}
}

// TestUnreadTrace: a pipe whose reader reads nothing does not stop the switch, whose packets wait for the trace.
func TestUnreadTrace(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // nothing was read
	var b switchServices
	var log strings.Builder
	trace, err := b.tracePackets(name, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for id := range uint64(5000) { // more than a pipe holds
		trace(&interp.PacketTrace{ID: id})
	}
	if n := strings.Count(log.String(), "packets are traced no more"); n != 1 {
		t.Errorf("%d errors were logged: %s", n, log.String())
	}
	_ = b.trace.Close()
}
