//go:build linux

package process_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

var (
	attackTime   = flag.Duration("attack.time", 500*time.Millisecond, "how long each attack goes on; a minute on a quiet machine")
	attackRate   = flag.Int("attack.rate", 20_000, "packets per second through the switch meanwhile")
	attackAll    = flag.Duration("attack.all", 500*time.Millisecond, "how long all attacks go on together at the end")
	attackCPU    = flag.Int("attack.cpu", -1, "core that only the switch has; the attacks, the sender and the receiver have the others")
	attackStrict = flag.Bool("attack.strict", false, "forward at a real-time priority; no packet lost, p99 latency at most twice that of quiet, "+
		"which is measured again before each attack: for a machine whose cores are not shared")
)

// attackMemory is what the switch may use, where there are memory cgroups.
const attackMemory = 512 << 20

// TestUnderAttack sends packets through a switch while its services are attacked,
// one attack after the other, each from a process of its own.
func TestUnderAttack(t *testing.T) {
	systemtest.Only(t)
	ns := twoVeths(t)
	command := []string{etherealtest.Binary(t), "switch"}
	if *attackStrict {
		// As on a machine that is the switch's. Where the scheduler shares by sessions,
		// niceness holds within one.
		command = append([]string{"setsid", "nice", "-n", "-20"}, append(command, "--realtime", "5")...)
	}
	if *attackCPU >= 0 {
		var others unix.CPUSet
		if err := unix.SchedGetaffinity(0, &others); err != nil {
			t.Fatal(err)
		}
		others.Clear(*attackCPU) // of this thread, and of what it starts
		if err := unix.SchedSetaffinity(0, &others); err != nil {
			t.Skipf("core %d is not the switch's alone: %v", *attackCPU, err)
		}
		command = append([]string{"taskset", "-c", strconv.Itoa(*attackCPU)}, command...)
	}
	p := startSwitch(t, ns, command, "s1", "s2")
	if *attackStrict {
		os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", p.cmd.Process.Pid), []byte("-20"), 0) //nolint:errcheck // it does not
	}
	limited := inCgroup(t, p.cmd.Process.Pid)
	p.program(t)
	in, err := port.OpenInterface("h1", port.InterfaceOptions{SendBuffer: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // the test is over
	out, err := port.OpenInterface("h2", port.InterfaceOptions{Slots: 8192})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the test is over
	// The sender is not what is measured.
	defer port.LockThread()()
	unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -15) //nolint:errcheck // then it is less even
	if *attackStrict {
		if err := port.Realtime(10); err != nil {
			t.Skipf("no real-time priority: %v", err)
		}
	}
	packet := rocePacket(1024, 0xC001)
	run := func(d time.Duration) measurement {
		var m measurement
		m.pace(in, out, packet, *attackRate, d)
		return m
	}
	run(*attackTime) // so that everything is in place
	quiet, quietRSS := run(*attackTime), rss(t, p.cmd.Process.Pid)
	t.Logf("%-18s %d packets/s for %v, cgroup of 512 MB: %v; p50 %v p99 %v, lost %d, resident %d MB", "quiet",
		*attackRate, *attackTime, limited, quiet.p50, quiet.p99, quiet.sent-quiet.received, quietRSS>>20)
	for _, name := range append(attackNames, "all") {
		length, names := *attackTime, []string{name}
		if name == "all" {
			length, names = *attackAll, attackNames
		}
		if *attackStrict {
			quiet = run(length)
			t.Logf("%-18s p50 %v p99 %v, lost %d of %d", "quiet", quiet.p50, quiet.p99, quiet.sent-quiet.received, quiet.sent)
		}
		var stops []func() string
		for _, n := range names {
			stops = append(stops, startAttack(t, n))
		}
		m := run(length)
		for again := 0; m.received == 0 && again < 20; again++ { // where other programs keep the switch from running for so long
			m = run(length)
		}
		said := ""
		for _, stop := range stops {
			said = stop()
		}
		t.Logf("%-18s p50 %v p99 %v (%.1f of quiet), lost %d of %d, resident %d MB; %s", name, m.p50, m.p99,
			float64(m.p99)/float64(quiet.p99), m.sent-m.received, m.sent, rss(t, p.cmd.Process.Pid)>>20, said)
		if m.received == 0 || *attackStrict && (m.received < m.sent || m.p99 > 2*quiet.p99) {
			t.Errorf("%s: forwarding suffers", name)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		// What the attack's last requests hold of the budgets is free when the switch has noticed their end.
		_, err := p.p4.Capabilities(ctx, &p4.CapabilitiesRequest{})
		for ; status.Code(err) == codes.ResourceExhausted && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
			_, err = p.p4.Capabilities(ctx, &p4.CapabilitiesRequest{})
		}
		if err != nil {
			t.Errorf("%s: the switch does not answer: %v", name, err)
		}
		if _, err := p.p4.Read(ctx, p.read()); err != nil {
			t.Errorf("%s: the switch cannot be read: %v", name, err)
		}
		cancel()
	}
	limit := attackMemory
	if *attackStrict {
		limit = quietRSS + 64<<20
	}
	after := rss(t, p.cmd.Process.Pid)
	for deadline := time.Now().Add(10*time.Second + 2**attackTime); after > limit && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond) // it gives memory back once it is calm
		after = rss(t, p.cmd.Process.Pid)
	}
	t.Logf("after all, resident %d MB, %d MB above quiet", after>>20, (after-quietRSS)>>20)
	if after > limit {
		t.Errorf("the switch keeps %d MB, %d MB above quiet", after>>20, (after-quietRSS)>>20)
	}
}

func (p *running) read() *p4.ReadRequest {
	return &p4.ReadRequest{DeviceId: 1, Entities: []*p4.Entity{{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{}}}}}
}

// inCgroup moves a process into a memory cgroup, if that can be.
func inCgroup(t *testing.T, pid int) bool {
	dir := fmt.Sprintf("/sys/fs/cgroup/memory/ethereal-attack-%d", pid)
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, limit = fmt.Sprintf("/sys/fs/cgroup/ethereal-attack-%d", pid), "memory.max"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Logf("no memory cgroup: %v", err)
		return false
	}
	t.Cleanup(func() {
		// The process ends after this.
		os.WriteFile(filepath.Join(filepath.Dir(dir), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644) //nolint:errcheck // Remove fails
		for range 50 {
			if os.Remove(dir) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	for name, value := range map[string]int{limit: attackMemory, "cgroup.procs": pid} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0o644); err != nil {
			t.Logf("no memory cgroup: %v", err)
			return false
		}
	}
	return true
}

// rss is a process's resident memory, in bytes.
func rss(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatalf("the switch is gone: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

const attackEnv = "ETHEREAL_TEST_ATTACK"

// startAttack runs an attack in a process of low priority, as its processor would
// be another machine's. stop ends it and returns what it said.
func startAttack(t *testing.T, name string) (stop func() string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestAttacker$", "-test.timeout=1h")
	cmd.Env = append(os.Environ(), attackEnv+"="+name, "GOMEMLIMIT=1GiB")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	unix.Setpriority(unix.PRIO_PROCESS, cmd.Process.Pid, 19) //nolint:errcheck // then it is less fair
	time.Sleep(200 * time.Millisecond)
	return func() string {
		cmd.Process.Signal(unix.SIGTERM) //nolint:errcheck // it may be gone
		cmd.Wait()                       //nolint:errcheck // it was asked to end
		last, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
		return last
	}
}

// attackNames are the attacks in order; attack has what they do.
var attackNames = []string{
	"dots", "wildcard-reads", "slow-reads", "large-writes", "atomic-writes", "failing-writes", "metadata", "empty-updates",
	"role-names", "verify", "samples", "connections", "garbage", "unfinished", "slow-controllers",
}

// TestAttacker is the other process.
func TestAttacker(t *testing.T) {
	name := os.Getenv(attackEnv)
	if name == "" {
		t.Skip("TestUnderAttack starts it")
	}
	if order, ok := slowOrders[name]; ok {
		floodSlowPath(t, order)
	}
	const addr = "127.0.0.1:9559"
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(1<<16))
	if err != nil {
		t.Fatal(err)
	}
	a := attacker{addr: addr, p4: p4.NewP4RuntimeClient(conn), gnmi: gnmi.NewGNMIClient(conn)}
	do := a.attack(t, name)
	if do == nil {
		t.Fatalf("no attack %q", name)
	}
	first := true
	for {
		err := do(context.Background())
		if first {
			text := "answered"
			if err != nil {
				text = err.Error()
			}
			fmt.Printf("%.150s\n", text)
			first = false
		}
	}
}

type attacker struct {
	addr string
	p4   p4.P4RuntimeClient
	gnmi gnmi.GNMIClient
}

// attack returns what to do again and again.
func (a *attacker) attack(t *testing.T, name string) func(context.Context) error {
	info := p4src.V1ModelP4Info()
	r := running{info: info}
	write := func(how p4.WriteRequest_Atomicity, updates []*p4.Update) func(context.Context) error {
		req := &p4.WriteRequest{DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Atomicity: how, Updates: updates}
		return func(ctx context.Context) error { _, err := a.p4.Write(ctx, req); return err }
	}
	// routes inserts and deletes n routes.
	routes := func(n int) (updates []*p4.Update) {
		for _, typ := range []p4.Update_Type{p4.Update_INSERT, p4.Update_DELETE} {
			for i := range n / 2 {
				updates = append(updates, r.entry(t, typ, "route_v4", lpm(32, 11, byte(i>>16), byte(i>>8), byte(i)), "forward_up", []byte{1}))
			}
		}
		return updates
	}
	switch name {
	case "dots":
		req := &gnmi.GetRequest{}
		for range 200 {
			path := &gnmi.Path{}
			for range 31 {
				path.Elem = append(path.Elem, &gnmi.PathElem{Name: "..."})
			}
			path.Elem = append(path.Elem, &gnmi.PathElem{Name: "name"})
			req.Path = append(req.Path, path)
		}
		return func(ctx context.Context) error { _, err := a.gnmi.Get(ctx, req); return err }
	case "wildcard-reads", "slow-reads":
		req := &p4.ReadRequest{DeviceId: 1}
		for range 200 {
			req.Entities = append(req.Entities, &p4.Entity{Entity: &p4.Entity_RegisterEntry{RegisterEntry: &p4.RegisterEntry{}}})
		}
		return func(ctx context.Context) error {
			s, err := a.p4.Read(ctx, req)
			for n := 0; err == nil; n++ {
				if _, err = s.Recv(); name == "slow-reads" && err == nil {
					return nil // and the rest is never read
				}
			}
			return err
		}
	case "large-writes":
		return write(p4.WriteRequest_CONTINUE_ON_ERROR, routes(16_000))
	case "atomic-writes":
		return write(p4.WriteRequest_DATAPLANE_ATOMIC, routes(256))
	case "failing-writes":
		return write(p4.WriteRequest_CONTINUE_ON_ERROR, routes(16_000)[8000:])
	case "metadata":
		u := routes(2)[:1]
		u[0].GetEntity().GetTableEntry().Metadata = make([]byte, 7<<20)
		return write(p4.WriteRequest_CONTINUE_ON_ERROR, u)
	case "empty-updates":
		u := make([]*p4.Update, 3<<20)
		for i := range u {
			u[i] = &p4.Update{}
		}
		return write(p4.WriteRequest_CONTINUE_ON_ERROR, u)
	case "role-names":
		return a.streams
	case "verify":
		junk := append([]byte(`{"a": "`), bytes.Repeat([]byte("x"), 7<<20)...)
		return func(ctx context.Context) error {
			_, err := a.p4.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
				DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Action: p4.SetForwardingPipelineConfigRequest_VERIFY,
				Config: &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: junk},
			})
			return err
		}
	case "samples":
		return a.subscribe
	case "connections":
		return func(context.Context) error { _, err := net.Dial("tcp", a.addr); return err }
	case "unfinished":
		return a.unfinished
	case "slow-controllers":
		return a.silent
	case "garbage":
		return func(context.Context) error {
			c, err := net.Dial("tcp", a.addr)
			if err != nil {
				return err
			}
			defer c.Close() //nolint:errcheck // it is garbage
			b := make([]byte, 4096)
			rand.Read(b) //nolint:errcheck // it does not fail
			copy(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
			binary.BigEndian.PutUint32(b[24:], 0xffffff00)
			_, err = c.Write(b)
			return err
		}
	}
	return nil
}

// streams opens and closes streams with long role names.
func (a *attacker) streams(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := a.p4.StreamChannel(ctx)
	if err != nil {
		return err
	}
	name := make([]byte, 50_000)
	rand.Read(name) //nolint:errcheck // it does not fail
	if err := s.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{
		DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Role: &p4.Role{Name: fmt.Sprintf("%x", name)}}}}); err != nil {
		return err
	}
	_, err = s.Recv()
	return err
}

// subscribe samples everything as often as it may and reads nothing.
func (a *attacker) subscribe(ctx context.Context) error {
	s, err := a.gnmi.Subscribe(ctx)
	if err != nil {
		return err
	}
	if err := s.Send(&gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Subscribe{Subscribe: &gnmi.SubscriptionList{
		Subscription: []*gnmi.Subscription{{Path: &gnmi.Path{}, Mode: gnmi.SubscriptionMode_SAMPLE, SampleInterval: 10e6}}}}}); err != nil {
		return err
	}
	_, err = s.Recv()
	return err
}

// unfinished sends requests of nearly the longest length, but for their last byte, and
// holds them for a while.
func (a *attacker) unfinished(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	const length = 8<<20 - 1
	var all sync.WaitGroup
	var mu sync.Mutex
	var first error
	for range 4 { // connections
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		for range 16 {
			all.Go(func() {
				begin := binary.BigEndian.AppendUint32([]byte{0}, length) // gRPC's header: not compressed
				body := io.MultiReader(bytes.NewReader(begin), io.LimitReader(zeros{}, length-1), until{ctx})
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.addr+"/p4.v1.P4Runtime/Read", body)
				if err == nil {
					req.Header.Set("Content-Type", "application/grpc")
					req.Header.Set("Te", "trailers")
					var resp *http.Response
					if resp, err = transport.RoundTrip(req); err == nil {
						err = fmt.Errorf("%s %s", resp.Header.Get("Grpc-Status"), resp.Header.Get("Grpc-Message"))
						resp.Body.Close() //nolint:errcheck // nothing is read of it
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			})
		}
	}
	all.Wait()
	return first
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// until has nothing to read until its context ends.
type until struct{ ctx context.Context }

func (u until) Read([]byte) (int, error) { <-u.ctx.Done(); return 0, u.ctx.Err() }

// silent opens streams that bid for primary, which all others learn of, and reads none.
func (a *attacker) silent(ctx context.Context) error {
	s, err := a.p4.StreamChannel(ctx)
	for i := uint64(1000); err == nil && i < 2000; i++ {
		err = s.Send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{
			DeviceId: 1, ElectionId: &p4.Uint128{Low: i}, Role: &p4.Role{Name: "silent"}}}})
	}
	time.Sleep(10 * time.Millisecond)
	return err
}
