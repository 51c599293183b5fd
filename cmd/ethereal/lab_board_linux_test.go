package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4src/p4srctest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// boardLab is a lab of switches whose ports have the names and numbers of a board, and whose program another compiler
// has numbered, all over TCP with mutual TLS.
type boardLab struct {
	*plant
	tls adminhttp.Client
}

// boardPort returns what a board calls a port of the fabric: every board has its own order.
func boardPort(id fabric.NodeID, n int) (name string, number uint32) {
	slot := (n*5 + int(id)) % 32
	return fmt.Sprintf("%d/0", slot+1), uint32(128 + 4*slot)
}

// cert returns the flags of TLS for a holder.
func (l *boardLab) cert(name string) []string {
	return []string{"--tls-ca", l.dir + "/certs/ca.pem", "--tls-cert", l.dir + "/certs/" + name + ".pem", "--tls-key",
		l.dir + "/certs/" + name + ".key"}
}

func (l *boardLab) start(id fabric.NodeID) {
	l.t.Helper()
	name, cert := l.f.Name(id), l.dir+"/certs/"
	args := []string{"switch", "--no-p4", "--device-id", fmt.Sprint(100 + id), "--log-console", "-L", "warn"}
	for n := 1; n <= l.f.Node(id).Ports(); n++ {
		called, number := boardPort(id, n)
		args = append(args, "-i", fmt.Sprintf("%d@%s", number,
			live.InterfaceName(l.f, fabric.End{Node: id, Port: fabric.PortNo(n)})),
			"--port-name", fmt.Sprintf("%d@%s", number, called))
	}
	l.ethereal(name, append(args, "--", "--grpc-server-addr", l.switchAddr(id), "--cpu-port", fmt.Sprint(p4src.CPUPort),
		"--priority-queues", "2",
		"--grpc-server-ssl", "--grpc-server-with-client-auth", "--grpc-server-cacert", cert+"ca.pem",
		"--grpc-server-cert", cert+name+".pem",
		"--grpc-server-key", cert+name+".key")...)
	l.until(time.Minute, name+" listens", func() error {
		c, err := net.Dial("tcp", l.switchAddr(id))
		if err == nil {
			c.Close()
		}
		return err
	})
}

// targets writes the controller's file, with the boards' ports and the program.
func (l *boardLab) targets() {
	info, err := prototext.Marshal(p4srctest.Renumbered(p4src.V1ModelP4Info()))
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("program.p4info.txtpb", string(info))
	l.write("program.json", string(p4src.V1ModelJSON()))
	var b strings.Builder
	b.WriteString("programs: {v1model: {p4info: program.p4info.txtpb, json: program.json}}\n" +
		"tables: {control_priority: 1}\nsuspicion: {probe_timeout: 50ms, probe_every: 50ms}\nswitches:\n")
	for i := range l.f.Switches() {
		id := l.switchID(i)
		fmt.Fprintf(&b, "  %s:\n    p4runtime: '%s'\n    device_id: %d\n    ports:\n", l.f.Name(id), l.switchAddr(id),
			100+id)
		for n := 1; n <= l.f.Node(id).Ports(); n++ {
			name, number := boardPort(id, n)
			fmt.Fprintf(&b, "      - {name: '%s', id: %d}\n", name, number)
		}
	}
	l.write("targets.yaml", b.String())
}

// controller starts the controller and waits until it has the switches in hand.
func (l *boardLab) controller() error {
	l.ethereal("controller", append([]string{"controller", "--fabric", "fabric.yaml", "--targets", "targets.yaml",
		"--listen-agents", "unix:" + l.dir + "/agents.sock",
		"--listen-admin", adminAddr(0), "--admin-token-file", "token", "--event-log", "events.jsonl"},
		l.cert("controller")...)...)
	deadline := time.Now().Add(2 * time.Minute)
	for {
		var s plantStatus
		err := l.tls.Get(context.Background(), adminAddr(0), "/status", 5*time.Second, &s)
		if err == nil && s.Ready {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the controller does not have the switches in hand: %+v, %w", s, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// host makes a host's namespace and starts its agent there.
func (l *boardLab) host(h int) {
	l.t.Helper()
	id := fabric.NodeID(h)
	name, mac := l.f.Name(id), l.f.MAC(id)
	cmd := exec.Command("sleep", "infinity")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		l.t.Skipf("no namespace for a host: %v", err)
	}
	x := &running{cmd: cmd, done: make(chan struct{})}
	go func() { defer close(x.done); cmd.Wait() }() //nolint:errcheck // it is killed
	l.procs["namespace of "+name] = x
	script := fmt.Sprintf(`
ip link set %[1]s netns %[2]d name eth0 address %[3]v
nsenter --net=/proc/%[2]d/ns/net bash -ec '
	echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; ip link set lo up; ip link set eth0 up'`,
		live.InterfaceName(l.f, fabric.End{Node: id, Port: 1}), cmd.Process.Pid, net.HardwareAddr(mac[:]))
	if out, err := exec.Command("bash", "-ec", script).CombinedOutput(); err != nil {
		l.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	l.plant.start(name, "nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", cmd.Process.Pid),
		os.Getenv("ETHEREAL_TEST_PROGRAM"),
		"host", "agent", "--fabric", "fabric.yaml", "--host", name, "--interface", "eth0", "--controller",
		"unix:" + l.dir + "/agents.sock",
		"--listen-socket", "unix:" + l.dir + "/" + name + ".sock", "--log-level", "warn", "--tls-server-name",
		"controller"}, l.cert(name)...)...)
	l.until(time.Minute, name+" can be driven", func() error {
		_, err := os.Stat(l.dir + "/" + name + ".sock")
		return err
	})
}

// do carries out experiments' requests to the lab's owner.
func (l *boardLab) do(o deployment.Order) error {
	switch o.Do {
	case "controller-down":
		l.kill("controller")
		return nil
	case "controller-up":
		if l.procs["controller"] != nil {
			return nil
		}
		return l.controller()
	case "agent-down", "agent-up":
		sig := syscall.SIGSTOP
		if o.Do == "agent-up" {
			sig = syscall.SIGCONT
		}
		l.procs[o.Name].signal(sig)
		return nil
	case "node-down", "node-up":
		id, err := l.f.NodeByName(o.Name)
		if err != nil {
			return err
		}
		up := o.Do == "node-up"
		if up {
			l.start(id)
		} else {
			l.kill(o.Name)
		}
		for n := 1; n <= l.f.Node(id).Ports(); n++ { // a dead box has no carrier
			peer := l.f.Link(l.f.Node(id).Link(fabric.PortNo(n))).Peer(id)
			l.up(live.InterfaceName(l.f, peer), up)
		}
		return nil
	}
	return fmt.Errorf("%q cannot be done here", o.Do)
}

// serve serves orders, one at a time.
func (l *boardLab) serve(lis net.Listener) {
	for {
		c, err := lis.Accept()
		if err != nil {
			return
		}
		var o deployment.Order
		var a struct{ Error string }
		err = json.NewDecoder(c).Decode(&o)
		if err == nil {
			err = l.do(o)
		}
		if err != nil {
			a.Error = err.Error()
		}
		json.NewEncoder(c).Encode(a) //nolint:errcheck // who asked is gone
		c.Close()
	}
}

// TestBoardLab carries out experiments on a lab whose switches have ports as a Tofino board has, 1/0 with the number
// 132, in another order on each, and a program whose counters have other ids, by gNMI and P4Runtime over TCP with
// mutual TLS. All in mininet/experiments, or those that ETHEREAL_EXPERIMENTS names: single-link,drain.
func TestBoardLab(t *testing.T) {
	systemtest.Only(t)
	for _, program := range []string{"openssl", "ip", "nsenter", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not on the PATH")
		}
	}
	if !inNamespaces(t) {
		return
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil { // nsenter looks hosts up there
		t.Skipf("no proc of the namespace's own: %v", err)
	}
	l := &boardLab{plant: newRack(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 3, HostsPerToR: 2}, "")}
	l.write("fabric.yaml", "kind: leaf-spine\ntors: 4\nspines: 3\nhosts_per_tor: 2\n")
	l.write("token", "0123456789abcdef\n")
	l.targets()
	holders := []string{"certs", "controller+operator@controller,127.0.0.1"}
	for i := range l.f.Nodes() {
		role := "host@"
		if i >= l.f.Hosts() {
			role = "switch@"
		}
		holders = append(holders, role+l.f.Name(fabric.NodeID(i))+",127.0.0.1")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ca := exec.Command(root+"/scripts/lab-ca", holders...)
	ca.Dir = l.dir
	if out, err := ca.CombinedOutput(); err != nil {
		t.Fatalf("lab-ca: %v\n%s", err, out)
	}
	files, err := certs.Read(l.dir+"/certs/ca.pem", l.dir+"/certs/controller.pem", l.dir+"/certs/controller.key")
	if err != nil {
		t.Fatal(err)
	}
	l.tls.TLS = files.ClientConfig("")
	for i := range l.f.Switches() {
		l.start(l.switchID(i))
	}
	sockets := make([]string, l.f.Hosts())
	for h := range l.f.Hosts() {
		sockets[h] = l.f.Name(fabric.NodeID(h)) + ".sock"
		l.host(h)
	}
	if err := l.controller(); err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("unix", l.dir+"/control.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	go l.serve(lis)
	text, err := json.Marshal(map[string]any{
		"fabric": "fabric.yaml", "targets": "targets.yaml", "hosts": sockets, "admin": adminAddr(0),
		"admin_token_file": "token",
		"event_log":        "events.jsonl", "control": "control.sock", "interface": "%s-%d",
		"tls_ca": "certs/ca.pem", "tls_cert": "certs/controller.pem", "tls_key": "certs/controller.key",
	})
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--world", "lab", "--deployment", l.write("lab.json", string(text)), "--out",
		l.dir + "/results.jsonl"}
	var experiments []string
	for name := range strings.SplitSeq(cmp.Or(os.Getenv("ETHEREAL_EXPERIMENTS"), "*"), ",") {
		found, err := filepath.Glob(root + "/mininet/experiments/" + name + ".yaml")
		if err != nil || len(found) == 0 {
			t.Fatalf("no experiment %q: %v", name, err)
		}
		experiments = append(experiments, found...)
	}
	cmd := exec.Command(os.Getenv("ETHEREAL_TEST_PROGRAM"), append(args, experiments...)...)
	cmd.Env = append(os.Environ(), beEthereal+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("not all of %d experiments pass: %v", len(experiments), err)
	}
	// What the switches have counted was read: by ids that v1model's own program does not have.
	results, err := os.ReadFile(l.dir + "/results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(results)) {
		var r struct {
			Scenario string
			Uplinks  int64 `json:"uplink_bytes_max"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Uplinks == 0 {
			t.Errorf("%s: no uplink has carried anything: %v", r.Scenario, err)
		}
	}
}
