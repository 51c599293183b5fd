package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// own is a process with queue pairs that speaks the agent's protocol until the stream ends: it shows them with their
// labels, labels what it is asked for, and reports time-outs.
func own(ctx context.Context, socket string, device labeller.Labeller, qps []labeller.QP, timedOut <-chan labeller.QP) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	type pair struct {
		Dst   netip.Addr    `json:"dst"`
		QP    uint32        `json:"qp"`
		Label *fabric.Label `json:"label,omitempty"`
	}
	labels := map[labeller.QP]*fabric.Label{}
	as, _ := device.Assignments()
	for _, a := range as {
		labels[a.QP] = &a.Label
	}
	var show []pair
	for _, q := range qps {
		show = append(show, pair{q.Dst, q.Num, labels[q]})
	}
	var mu sync.Mutex
	send := func(m any) {
		mu.Lock()
		defer mu.Unlock()
		json.NewEncoder(conn).Encode(m)
	}
	send(map[string][]pair{"show": show})
	go func() {
		select {
		case q := <-timedOut:
			send(map[string][]pair{"timeout": {{Dst: q.Dst, QP: q.Num}}})
		case <-ctx.Done():
		}
	}()
	for dec := json.NewDecoder(conn); ; {
		var m struct {
			Seq uint64
			Set []pair
		}
		if dec.Decode(&m) != nil {
			return
		}
		for _, p := range m.Set {
			device.Set(labeller.Assignment{QP: labeller.QP{Dst: p.Dst, Num: p.QP}, Label: *p.Label})
		}
		send(map[string]uint64{"seq": m.Seq})
	}
}

// TestHostagentMutualTLS runs a controller, an agent for an RNIC's queue pairs and
// their owner, with certificates on every connection: labels are given, follow the
// state of links, survive the agent's restart, and time-outs are reported. A client that
// has no certificate receives nothing.
func TestHostagentMutualTLS(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/tmp", "eth") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	tlsFlags := labCA(t, dir)
	files, setPort := tcpLab(t, tlsFlags)
	agents, admin, hostAdmin, socket := freePort(t), freePort(t), freePort(t), filepath.Join(dir, "owners.sock")
	start := func(args ...string) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan string, 1)
		go func() {
			code, _, errs := etherealCommand(ctx, args...)
			ended <- fmt.Sprintf("exit code %d\n%s", code, errs)
		}()
		return func() {
			t.Helper()
			cancel()
			if s := <-ended; !strings.HasPrefix(s, "exit code 0\n") {
				t.Errorf("%s: %s", args[0], s)
			}
		}
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not in time: %s", what)
			}
		}
	}
	defer start(append(append([]string{"controller", "--listen-agents=" + agents, "--listen-admin=" + admin}, files...), tlsFlags...)...)()
	hostArgs := append([]string{
		"host", "agent", files[0], "--host=h0", "--labeller=verbs", "--listen-owners=unix:" + socket, "--controller=" + agents,
		"--listen-admin=" + hostAdmin, "--state-file=" + filepath.Join(dir, "h0.json"), "--log-level=error",
	}, tlsFlags[0], "--tls-cert="+filepath.Join(dir, "h0.pem"), "--tls-key="+filepath.Join(dir, "h0.key"))
	stopHost := start(hostArgs...)
	defer func() { stopHost() }()

	pki, err := certs.Read(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "node.pem"), filepath.Join(dir, "node.key"))
	if err != nil {
		t.Fatal(err)
	}
	get := func(files *certs.Files, path string) (string, error) {
		c := http.Client{Transport: &http.Transport{TLSClientConfig: files.ClientConfig("localhost"), DisableKeepAlives: true}, Timeout: 5 * time.Second}
		c.Transport.(*http.Transport).TLSClientConfig.ServerName = ""
		r, err := c.Get("https://" + hostAdmin + path)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return string(b), err
	}
	status := func() (s adopt.Status) {
		if text, err := get(pki, "/status"); err == nil {
			json.Unmarshal([]byte(text), &s)
		}
		return s
	}
	until("the agent follows the controller", func() bool {
		s := status()
		return len(s.Controllers) == 1 && s.Controllers[0].Followed
	})
	if text, err := get(&certs.Files{Roots: pki.Roots}, "/status"); err == nil {
		t.Errorf("without a certificate: %s", text)
	}

	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	device := labellertest.NewInline(labeller.SourcePort, 0)
	timedOut := make(chan labeller.QP)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	qps := []labeller.QP{{Dst: f.HostAddr4(1), Num: 1}, {Dst: f.HostAddr4(1), Num: 2}, {Dst: f.HostAddr4(2), Num: 3}, {Dst: f.HostAddr4(2), Num: 4}}
	wg.Go(func() {
		for ctx.Err() == nil {
			own(ctx, socket, device, qps, timedOut)
			time.Sleep(10 * time.Millisecond) // the agent is started again
		}
	})
	on := func() (n [2]int) {
		as, err := device.Assignments()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range as {
			n[a.Label]++
		}
		return n
	}
	until("two queue pairs on each uplink", func() bool { return on() == [2]int{2, 2} })
	setPort("tor0", 2, false) // the first uplink
	until("all are on the other", func() bool { return on() == [2]int{0, 4} })
	stopHost()
	stopHost = start(hostArgs...)
	until("the next agent has them", func() bool { return len(status().QueuePairs) == 4 })
	if n := on(); n != [2]int{0, 4} {
		t.Errorf("a restart moved queue pairs: %v", n)
	}
	setPort("tor0", 2, true)
	until("two are back", func() bool { return on() == [2]int{2, 2} })
	timedOut <- qps[0]
	until("the time-out is reported", func() bool {
		code, out, _ := etherealCommand(t.Context(), append([]string{"status", "-o=json", "--admin=" + admin}, tlsFlags...)...)
		var s struct {
			Agents []struct{ Reports int }
		}
		return code == exitOK && json.Unmarshal([]byte(out), &s) == nil && len(s.Agents) == 1 && s.Agents[0].Reports > 0
	})
	text, err := get(pki, "/metrics")
	if err != nil || !strings.Contains(text, "ethereal_host_queue_pairs_open 4") || !strings.Contains(text, "ethereal_host_timeouts_total 1") {
		t.Errorf("metrics: %v\n%s", err, text)
	}
	monitored(t, "hosts", text)

	// A host speaks for itself alone: h0's certificate does not make an agent h1.
	for name, cert := range map[string]string{"another host's certificate": "h0", "an operator's": "node"} {
		ctx, end := context.WithTimeout(t.Context(), 2*time.Second)
		_, _, errs := etherealCommand(ctx, "host", "agent", files[0], "--host=h1", "--labeller=verbs", "--listen-owners=unix:"+filepath.Join(dir, cert+".sock"),
			"--controller="+agents, "--listen-admin=unix:"+filepath.Join(dir, cert+"-a.sock"), "--log-level=info", tlsFlags[0],
			"--tls-cert="+filepath.Join(dir, cert+".pem"), "--tls-key="+filepath.Join(dir, cert+".key"))
		end()
		if strings.Contains(errs, "following controller") {
			t.Errorf("with %s an agent speaks for h1: %s", name, errs)
		}
	}
	// An agent that the controller does not know receives nothing.
	stranger := append([]string{
		"host", "agent", files[0], "--host=h1", "--labeller=verbs", "--listen-owners=unix:" + filepath.Join(dir, "other.sock"),
		"--controller=" + agents, "--listen-admin=unix:" + filepath.Join(dir, "h1.sock"), "--log-level=info",
	}, tlsFlags[0])
	ctx2, end := context.WithTimeout(t.Context(), 2*time.Second)
	defer end()
	if _, _, errs := etherealCommand(ctx2, stranger...); !strings.Contains(errs, "no updates from controller") || strings.Contains(errs, "following controller") {
		t.Errorf("an agent without a certificate: %s", errs)
	}
}

// TestHostagentInput: what cannot be is refused with a word of advice.
func TestHostagentInput(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "fabric.yaml")
	if err := os.WriteFile(spec, []byte("kind: fat-tree\nk: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args, want string
	}{
		{"", `required flag(s) "fabric", "host" not set`},
		{"--fabric=FILE --host=h0", "takes one --interface"},
		{"--fabric=FILE --host=h0 --interface=a --interface=b", "takes one --interface"},
		{"--fabric=FILE --host=h0 --interface=a --pin-dir=/x", "none of --listen-owners"},
		{"--fabric=FILE --host=tor0 --interface=a", "is a switch"},
		{"--fabric=FILE --host=h0 --labeller=magic", "write soft, tagger or verbs"},
		{"--fabric=FILE --host=h0 --labeller=verbs", "takes --listen-owners"},
		{"--fabric=FILE --host=h0 --labeller=verbs --listen-owners=x --ipv6-flow-label", "none of --interface"},
		{"--fabric=FILE --host=h0 --labeller=tagger", "takes --interface"},
		{"--fabric=FILE --host=h0 --labeller=verbs --listen-owners=x", "is not unix:PATH"},
		{"--fabric=FILE --host=h0 --interface=a --listen-admin=0.0.0.0:1", "not on the loopback"},
	} {
		args := append([]string{"host", "agent"}, strings.Fields(strings.ReplaceAll(tt.args, "FILE", spec))...)
		code, _, errs := etherealCommand(t.Context(), args...)
		if code != exitInput || !strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit code %d, %s, want %q", args, code, errs, tt.want)
		}
	}
	for _, args := range [][]string{{"live", "nonsense"}, {"live", "exec", "h0"}} {
		if code, _, errs := etherealCommand(t.Context(), args...); code != exitInput || errs == "" {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}
