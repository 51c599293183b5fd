package live_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// collective is a scenario that all hosts of a fabric on this machine carry out.
const collective = `
name: collective
fabric: {kind: leaf-spine, tors: 3, spines: 2, hosts_per_tor: 2, host_link: {rate: 20Mb/s}, tor_uplink: {rate: 20Mb/s}}
host: {payload: 2048B, rto: 200ms, congestion_control: none, receiver: go-back-n}
agent: {failed_path_memory: 2s}
collectives: [{kind: all-reduce, algorithm: ring, bytes: 10MB}]
schemes: [ethereal]
deadline: 120s
`

// program runs beside others while a process of the fabric is killed and started again.
type program struct {
	name  string
	begun func() bool   // whether it has sent data
	ended chan struct{} // closed when it is over
	err   error         // then
	said  string        // then, in short
	took  time.Duration
}

// launch starts f, which returns a program's figures and its error.
func launch(name string, begun func() bool, f func() (string, error)) *program {
	p := &program{name: name, begun: begun, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		began := time.Now()
		p.said, p.err = f()
		p.took = time.Since(began).Round(10 * time.Millisecond)
	}()
	return p
}

// underWay waits until a program has sent data; it fails the test if that does not come, or if the program ends before.
func (p *program) underWay(t *testing.T) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !p.begun(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			t.Fatalf("%s ended before its time: %v %s", p.name, p.err, p.said)
		default:
			if time.Now().After(limit) {
				t.Fatalf("%s has sent nothing for a minute", p.name)
			}
		}
	}
}

// trafficTest is a fabric with programs.
type trafficTest struct {
	t        *testing.T
	command  func(args ...string) *exec.Cmd
	dir      string // of the fabric's sockets
	tmp      string
	mpi      string // the program
	turn     int
	nic      map[string]*running
	scenario string
}

// sent returns how many bytes a host's interface has sent.
func (x *trafficTest) sent(host string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/dev", x.nic[host].pid))
	if err != nil {
		return 0 // its process is being started
	}
	_, line, _ := strings.Cut(string(b), "eth0:")
	var n [9]int64
	for i := range n {
		if _, err := fmt.Sscan(line, &n[i]); err != nil {
			return 0
		}
		_, line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	return n[8]
}

// more returns what reports whether a host has sent so many bytes from now on.
func (x *trafficTest) more(host string, bytes int64) func() bool {
	from := x.sent(host)
	return func() bool { return x.sent(host) >= from+bytes }
}

// connected reports whether a program in a host has a TCP connection at its port.
func (x *trafficTest) connected(host string, port int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", x.nic[host].pid))
	if err != nil {
		return false
	}
	return regexp.MustCompile(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]{8}:%04X [0-9A-F]{8}:[0-9A-F]{4} 01 `, port)).Match(b)
}

// bandwidth writes from h3 to h4 for some seconds.
func (x *trafficTest) bandwidth() *program {
	words := []string{"timeout", "60", "ib_write_bw", "-F", "-D", "4", "-s", "16384", "-u", "20"}
	var sent func() bool
	begun := func() bool {
		if sent == nil && x.connected("h4", 18515) {
			sent = x.more("h3", 300<<10)
		}
		return sent != nil && sent()
	}
	return launch("ib_write_bw h3 to h4", begun, func() (string, error) {
		var said bytes.Buffer
		server := x.command(append([]string{"exec", "h4", "--"}, words...)...)
		server.Stdout, server.Stderr = &said, &said
		if err := server.Start(); err != nil {
			return "", err
		}
		over := make(chan error, 1) // it ends after its client, or by its timeout
		go func() { over <- server.Wait() }()
		var out []byte
		var err, waited error
		for listens := false; !listens; time.Sleep(100 * time.Millisecond) { // until it listens
			out, err = x.command(append(append([]string{"exec", "h3", "--"}, words...), "h4")...).CombinedOutput()
			listens = err == nil || !notListening(string(out))
			select {
			case waited = <-over:
				listens = true
				over <- waited
			default:
			}
		}
		waited = <-over
		f := strings.Fields(regexp.MustCompile(`(?m)^ *16384 .*$`).FindString(string(out)))
		switch {
		case len(f) > 3 && (err == nil || strings.Contains(string(out), "Failed to exchange data")):
			// All is written. Then the programs exchange 108 bytes by TCP, and each takes one read for them. Linux
			// sends them in three packets on a connection whose interface was down once: its path had the MTU of no
			// device.
			return fmt.Sprintf("%s writes, %s MB/s", f[1], f[3]), nil
		case err != nil:
			return "", fmt.Errorf("client: %w: %s; server: %s", err, out, said.String())
		case waited != nil:
			return "", fmt.Errorf("server: %w: %s", waited, said.String())
		}
		return string(out), nil
	})
}

// ranks runs MPI's collectives on h0, h1 and h2 until stop is called.
func (x *trafficTest) ranks() (p *program, stop func()) {
	x.turn++
	file := fmt.Sprintf("%s.stop%d", x.mpi, x.turn)
	begun := func() bool { _, err := os.Stat(file + ".begun"); return err == nil }
	p = launch("MPI on h0, h1, h2", begun, func() (string, error) {
		out, err := x.command("mpirun", "-n", "3", x.mpi, file).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	})
	return p, func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			x.t.Error(err)
		}
	}
}

// quiet waits until a host sends next to nothing: a collective that failed leaves messages that are still being sent.
func (x *trafficTest) quiet(host string) {
	x.t.Helper()
	for calm, limit := 0, time.Now().Add(time.Minute); calm < 3; calm++ {
		before := x.sent(host)
		if time.Sleep(300 * time.Millisecond); x.sent(host)-before > 20<<10 {
			calm = -1
		}
		if time.Now().After(limit) {
			x.t.Fatalf("%s goes on sending after its programs", host)
		}
	}
}

// ring runs the collective on all hosts.
func (x *trafficTest) ring() *program {
	x.quiet("h5")
	return launch("collective on all hosts", x.more("h5", 300<<10), func() (string, error) {
		results := filepath.Join(x.tmp, fmt.Sprintf("run%d.jsonl", x.turn))
		out, err := exec.Command(etherealtest.Binary(x.t), "run", "--world", "lab", "--deployment", filepath.Join(x.dir, deployment.FileName),
			"-q", "--out", results, x.scenario).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		var r struct {
			CCT             float64 `json:"cct_us"`
			Finished        bool
			Flips, Timeouts int
			Retransmissions int
		}
		b, err := os.ReadFile(results)
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err == nil && !r.Finished {
			err = fmt.Errorf("not finished: %s", out)
		}
		return fmt.Sprintf("%.2f s, %d flips, %d time-outs, %d retransmissions", r.CCT/1e6, r.Flips, r.Timeouts, r.Retransmissions), err
	})
}

// exec runs a command in a node.
func (x *trafficTest) exec(node string, words ...string) string {
	x.t.Helper()
	out, err := x.command(append([]string{"exec", node, "--"}, words...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("%s: %v: %v %s", node, words, err, out)
	}
	return string(out)
}

// TestRestartUnderTraffic kills each kind of a fabric's processes and starts it again while ib_write_bw, a program of
// MPI and a collective of host agents run. A program whose own host's process died may fail, and the collective, which
// all hosts take part in; others go on. The next programs work at once.
func TestRestartUnderTraffic(t *testing.T) {
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("nsenter needs root")
	}
	systemtest.Program(t, "nsenter", "", "Debian: util-linux")
	systemtest.Program(t, "ib_write_bw", "", "Debian: perftest")
	t.Setenv("UCX_RC_TIMEOUT", "4s") // seven times: a switch that is started again on a busy machine takes seconds
	x := &trafficTest{t: t, mpi: mpiProgram(t), nic: map[string]*running{}}
	x.command, x.tmp = exploring(t, "kind: leaf-spine\ntors: 3\nspines: 2\nhosts_per_tor: 2\n"+
		"host_link: {rate: 20Mb/s}\ntor_uplink: {rate: 20Mb/s}\n")
	found, err := filepath.Glob(filepath.Join(x.tmp, "ethereal-live-*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("folders of the fabric: %v %v", found, err)
	}
	x.dir, x.scenario = found[0], filepath.Join(x.tmp, "collective.yaml")
	if err := os.WriteFile(x.scenario, []byte(collective), 0o600); err != nil {
		t.Fatal(err)
	}
	process := func(words ...string) *running { p := findRunning(t, x.tmp, words...); return &p }
	for h := range 6 {
		name := fmt.Sprintf("h%d", h)
		x.nic[name] = process("\x00agent\x00", "\x00--host\x00"+name+"\x00")
	}
	for _, v := range []struct {
		name   string
		killed *running
		fails  string // programs that may fail, by the first letters of their names
		after  func(restarted bool)
	}{
		{"no process", nil, "", nil},
		{"spine0", process("\x00switch\x00", "/spine0.sock"), "", x.power("spine0", []string{"tor0-3", "tor1-3", "tor2-3"}, nil)},
		{"tor1", process("\x00switch\x00", "/tor1.sock"), "", x.power("tor1", []string{"spine0-2", "spine1-2"}, []string{"h2", "h3"})},
		{"the controller", process("\x00controller\x00"), "", nil},
		{"h5's process", x.nic["h5"], "collective", nil},
		{"h3's process, ib_write_bw's client", x.nic["h3"], "collective ib_write_bw", nil},
		{"h4's process, ib_write_bw's server", x.nic["h4"], "collective ib_write_bw", nil},
		{"h1's process, a rank's", x.nic["h1"], "collective MPI", nil},
		{"no process, after all", nil, "", nil},
	} {
		ring := x.ring() // its start ends all connections of RDMA programs
		ring.underWay(t)
		mpi, stop := x.ranks()
		mpi.underWay(t)
		bw := x.bandwidth()
		bw.underWay(t)
		began := time.Now()
		if v.killed != nil {
			if v.after != nil {
				v.after(false)
			}
			v.killed.again(t, syscall.SIGKILL)
			if v.after != nil {
				v.after(true)
			}
		}
		again := time.Since(began).Round(time.Millisecond)
		select {
		case <-ring.ended:
			if ring.err == nil {
				t.Logf("the collective ended before %s was started again", v.name)
			}
		default:
		}
		<-bw.ended
		<-ring.ended
		stop()
		<-mpi.ended
		t.Logf("killed and started again within %v: %s", again, v.name)
		for _, p := range []*program{bw, mpi, ring} {
			first, _, _ := strings.Cut(p.name, " ")
			switch {
			case p.err == nil:
				t.Logf("  %s: %v: %s", p.name, p.took, p.said)
			case strings.Contains(v.fails, first):
				t.Logf("  %s fails after %v, as it may: %.300v", p.name, p.took, p.err)
			default:
				t.Errorf("  %s fails after %v: %v %s", p.name, p.took, p.err, p.said)
			}
		}
	}
}

// power returns what gives a killed switch's neighbours their interfaces back, as its power does: the live world takes
// them down.
func (x *trafficTest) power(name string, ports, hosts []string) func(restarted bool) {
	return func(restarted bool) {
		if !restarted {
			return
		}
		for _, p := range ports {
			x.exec(name, "ip", "link", "set", p, "up")
		}
		for _, h := range hosts {
			x.exec(h, "ip", "link", "set", "eth0", "up")
		}
	}
}
