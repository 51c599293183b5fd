package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// labPage is docs/lab.md and what it names, carried out on a plant whose switches and controllers are processes of one
// network namespace, with the page's addresses on a bridge that is the management network, and whose hosts have a
// network namespace each.
type labPage struct {
	*plant
	text  string // in which /etc/ethereal is the plant's folder
	cwd   string // where commands are carried out
	hosts []int  // processes that keep the hosts' namespaces
}

// block returns the commands of the page from a line that begins so to the next empty line, for a shell.
func (l *labPage) block(begin string) string {
	l.t.Helper()
	_, rest, ok := strings.Cut(l.text, "\n    "+begin)
	if !ok {
		l.t.Fatalf("docs/lab.md has no command %q", begin)
	}
	text, _, _ := strings.Cut(begin+rest, "\n\n")
	return strings.ReplaceAll(text, "\n    ", "\n")
}

// command returns the command of the page that begins so, in words.
func (l *labPage) command(begin string) []string {
	l.t.Helper()
	_, rest, ok := strings.Cut(l.text, "\n    "+begin)
	if !ok {
		l.t.Fatalf("docs/lab.md has no command %q", begin)
	}
	if strings.Contains(rest, "\n    "+begin) {
		l.t.Fatalf("docs/lab.md has two commands %q", begin)
	}
	return words(begin + rest)
}

// words returns the words of a command that may go on in further lines.
func words(text string) []string {
	text = strings.ReplaceAll(text, "\\\n", " ")
	line, _, _ := strings.Cut(text, "\n")
	return strings.Fields(line)
}

// unit returns the command of a systemd unit, with what it is given there.
func (l *labPage) unit(name string, given ...string) []string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join("../../scripts/systemd", name))
	if err != nil {
		l.t.Fatal(err)
	}
	_, start, ok := strings.Cut(string(text), "ExecStart=ethereal ")
	if !ok {
		l.t.Fatalf("%s does not start ethereal", name)
	}
	args := words(strings.ReplaceAll(strings.NewReplacer(given...).Replace(start), "/etc/ethereal/", ""))
	if left := strings.Join(args, " "); strings.ContainsAny(left, "$%") {
		l.t.Fatalf("%s: what is this given? %s", name, left)
	}
	return args
}

// run carries out commands by a shell, in which ethereal is this program.
func (l *labPage) run(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", script)
	cmd.Dir, cmd.Env = l.cwd, append(os.Environ(), beEthereal+"=1", "PATH="+l.dir+"/bin:"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must carries out commands that are to end well.
func (l *labPage) must(script string) string {
	l.t.Helper()
	out, err := l.run(script)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// address is a node's on the management network, as the page has it.
func (l *labPage) address(id fabric.NodeID) string {
	n := l.f.Node(id)
	base := map[fabric.Tier]int{fabric.Host: 101, fabric.ToR: 11, fabric.Core: 19}[n.Tier]
	return fmt.Sprintf("192.0.2.%d", base+n.Index)
}

// on returns commands that are carried out on a host.
func (l *labPage) on(host int, script string) string {
	return fmt.Sprintf("nsenter --net=/proc/%d/ns/net bash -e <<'HOST'\n%s\nHOST", l.hosts[host], script)
}

// management makes the management network, and a namespace for each host with its interface there and, as eth2, the
// one to its ToR.
func (l *labPage) management() {
	l.t.Helper()
	l.must(`
ip link add mgmt type bridge
ip link set mgmt up
for a in 1 2 11 12 13 14 19 20; do ip address add 192.0.2.$a/24 dev mgmt; done`)
	for h := range l.f.Hosts() {
		id := fabric.NodeID(h)
		cmd := exec.Command("sleep", "infinity")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if err := cmd.Start(); err != nil {
			l.t.Skipf("no namespace for a host: %v", err)
		}
		x := &running{cmd: cmd, done: make(chan struct{})}
		go func() { defer close(x.done); cmd.Wait() }() //nolint:errcheck // it is killed
		l.procs["namespace of "+l.f.Name(id)] = x
		l.hosts = append(l.hosts, cmd.Process.Pid)
		port := live.InterfaceName(l.f, fabric.End{Node: id, Port: 1})
		l.must(fmt.Sprintf(`
ip link add mgmt%[1]d type veth peer name mgmt netns %[2]d
ip link set mgmt%[1]d master mgmt up
ip link set %[3]s netns %[2]d name eth2`, h, cmd.Process.Pid, port))
		l.must(l.on(h, fmt.Sprintf(`
echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6
ip link set lo up
ip address add %s/24 dev mgmt
ip link set mgmt up`, l.address(id))))
	}
}

// startHost sets a host up by the page's commands, which are h0's, checks it as the page does, and starts its agent by
// the unit.
func (l *labPage) startHost(h int) {
	l.t.Helper()
	id := fabric.NodeID(h)
	name, mac := l.f.Name(id), func(id fabric.NodeID) string { m := l.f.MAC(id); return net.HardwareAddr(m[:]).String() }
	tor := l.f.Link(l.f.Node(id).Link(1)).B.Node
	own := strings.NewReplacer(mac(0), mac(id), "10.0.0.2/", l.f.HostAddr4(id).String()+"/", mac(l.f.Link(l.f.Node(0).Link(1)).B.Node), mac(tor),
		"HOST=h0", "HOST="+name, "--host h0", "--host "+name, l.address(0), l.address(id))
	l.must(l.on(h, own.Replace(l.block("ip link set eth2 "))))
	l.must(l.on(h, own.Replace(strings.Join(l.command("ethereal host preflight "), " "))))
	env := map[string]string{}
	for line := range strings.Lines(own.Replace(l.block("HOST=h0"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[key] = value
	}
	args := l.unit("ethereal-hostagent@.service", "${HOST}", env["HOST"], "%I", "eth2", "${ADMIN}", env["ADMIN"],
		"$CONTROLLERS", env["CONTROLLERS"], "/run/ethereal-hostagent/control.sock", name+".sock",
		"/var/lib/ethereal-hostagent/%i.json", name+".json", "host.pem", name+".pem", "%d/key", name+".key")
	enter := []string{fmt.Sprintf("--net=/proc/%d/ns/net", l.hosts[h]), os.Getenv("ETHEREAL_TEST_PROGRAM")}
	l.start(name, "nsenter", append(enter, args...)...)
}

// startLabSwitch starts a switch by the page's command, which is tor0's: another's
// differs in the device id, the interfaces, the address and the certificate.
func (l *labPage) startLabSwitch(id fabric.NodeID, more ...string) {
	l.t.Helper()
	args := l.command("ethereal switch ")[1:]
	name, at := l.f.Name(id), l.address(id)+":9559"
	change := map[string]string{
		"17": fmt.Sprint(id + 1), "192.0.2.11:9559": at, "192.0.2.11:9558": l.address(id) + ":9558",
		l.dir + "/tor0.pem": l.dir + "/" + name + ".pem", l.dir + "/tor0.key": l.dir + "/" + name + ".key",
	}
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == "-i" { // the page has tor0's, in a row
			i++
			continue
		}
		word := args[i]
		if with, ok := change[word]; ok {
			word = with
			delete(change, args[i])
		}
		out = append(out, word)
	}
	if len(change) > 0 {
		l.t.Fatalf("docs/lab.md's switch command is another now: %v lacks %v", args, change)
	}
	for n := 1; n <= l.f.Node(id).Ports(); n++ {
		as := fmt.Sprintf("%d@eth%d", n, n)
		if l.f.Node(id).Tier == fabric.ToR && !slices.Contains(args, as) {
			l.t.Fatalf("docs/lab.md's switch command lacks -i %s: %v", as, args)
		}
		port := live.InterfaceName(l.f, fabric.End{Node: id, Port: fabric.PortNo(n)})
		out = append(out, "-i", fmt.Sprintf("%d@%s", n, port))
	}
	l.ethereal(name, append(out, more...)...)
}

// TestLab carries out docs/lab.md from the plan to the first collective: four ToRs,
// two spines and 16 hosts, the commands of the page and of the systemd units, with
// mutual TLS. Then the page's experiments end as they are expected to. Then each thing is broken that a lab gets wrong,
// and preflight names it and the remedy.
func TestLab(t *testing.T) {
	systemtest.Only(t)
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not on the PATH")
	}
	if !inNamespaces(t) {
		return
	}
	for _, program := range []string{"ip", "nsenter", "bash", "ping"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not on the PATH")
		}
	}
	text, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NO_PROXY", "192.0.2.0/24")
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 4}
	l := &labPage{plant: newRack(t, spec, ""), cwd: root}
	l.text = strings.NewReplacer("/etc/ethereal", l.dir, "/var/log/ethereal-controller", l.dir).Replace(string(text))
	l.must(fmt.Sprintf("mkdir %[1]s/bin; ln -s $ETHEREAL_TEST_PROGRAM %[1]s/bin/ethereal", l.dir))
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil { // nsenter looks hosts up there
		t.Skipf("no proc of the namespace's own: %v", err)
	}
	l.management()
	l.must(l.block("mkdir -p "))
	l.must(l.block("scripts/lab-ca "))
	l.must(l.block("(umask 077"))
	path := filepath.Join(l.dir, "targets.yaml")
	begun, err := os.ReadFile(path) // chapter 3: the addresses of the lab
	if err != nil {
		t.Fatal(err)
	}
	targets := string(begun)
	for i := range l.f.Nodes() {
		id := fabric.NodeID(i)
		what, more := "admin", ":9561'}"
		if i >= l.f.Hosts() {
			what, more = "p4runtime", fmt.Sprintf(":9559', device_id: %d, admin: '%s:9558'}", id+1, l.address(id))
			l.startLabSwitch(id)
		} else {
			l.startHost(i)
		}
		line := regexp.MustCompile(`(?m)^  ` + l.f.Name(id) + `: \{.*$`)
		if !line.MatchString(targets) {
			t.Fatalf("targets.yaml of ethereal init lacks %s:\n%s", l.f.Name(id), targets)
		}
		targets = line.ReplaceAllString(targets, fmt.Sprintf("  %s: {%s: '%s%s", l.f.Name(id), what, l.address(id), more))
	}
	l.write("targets.yaml", targets)
	l.must(l.block("cd " + l.dir))
	l.cwd = l.dir
	before, beside := l.command("ethereal preflight --fabric fabric.yaml --targets targets.yaml --push"),
		l.command("ethereal preflight --fabric fabric.yaml --targets targets.yaml --admin")
	green := func(what string, args []string) {
		t.Helper()
		l.until(2*time.Minute, what, func() error {
			out, err := l.run(strings.Join(args, " "))
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			return err
		})
	}
	green("preflight before there are controllers", before)
	controller := func(c int, own *strings.Replacer, cert string) {
		given := []string{"%d/token", "token", "/var/lib/ethereal-controller/drained.json", cert + "-drained.json",
			"/var/log/ethereal-controller/events.jsonl", map[string]string{"controller": "events.jsonl", "ctl1": "standby.jsonl"}[cert],
			"controller.pem", cert + ".pem", "%d/key", cert + ".key"}
		for line := range strings.Lines(own.Replace(l.block("ELECTION_ID=2"))) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			given = append(given, "${"+key+"}", value)
		}
		l.ethereal(fmt.Sprintf("ctl%d", c), l.unit("ethereal-controller.service", given...)...)
	}
	// Of two that start together the higher is primary, and its log has the writes.
	controller(0, strings.NewReplacer(), "controller")
	controller(1, strings.NewReplacer("=2", "=1", "192.0.2.1:", "192.0.2.2:", "192.0.2.2:", "192.0.2.1:"), "ctl1")
	green("preflight beside the controllers", beside)
	green("verify", l.command("ethereal verify "))

	l.must(l.on(0, strings.Join(l.command("ping "), " ")))
	l.must(l.block("cat > lab.json"))
	probed := l.command("ethereal preflight --deployment ")
	green("every path answers", probed)
	l.renews(func() error {
		out, err := l.run(strings.Join(l.command("ethereal run "), " "))
		t.Log(out)
		return err
	})
	green("preflight after the renewal", beside)

	// broken has a preflight name what is wrong, and the remedy.
	broken := func(what string, args []string, want ...string) {
		t.Helper()
		l.until(time.Minute, what, func() error {
			out, _ := l.run(strings.Join(args, " "))
			for _, w := range want {
				if !strings.Contains(out, w) {
					return fmt.Errorf("%q is not said:\n%s", w, out)
				}
			}
			return nil
		})
	}
	l.write("targets.yaml", regexp.MustCompile(`(?m)^  ecn: .*$`).ReplaceAllString(targets, ""))
	broken("no ECN", beside, "the targets file has no key tables.ecn", "add to the targets file: tables: {ecn:")
	l.write("targets.yaml", targets)
	spine := l.switchID(l.f.ToRs())
	l.kill("spine0")
	l.startLabSwitch(spine, "--priority-queues", "1")
	broken("no priority queues", probed, "48 of 96 paths answer every probe",
		"all paths that lose cross spine0, and no other does", "--priority-queues")
	broken("why the switch drops", l.command("ethereal status "), "priority out of range", "give the switch more --priority-queues")

	mtu := func(bytes int) {
		t.Helper()
		link, err := netlink.LinkByName(live.InterfaceName(l.f, fabric.End{Node: spine, Port: 1}))
		if err == nil {
			err = netlink.LinkSetMTU(link, bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mtu(1500)
	broken("a small MTU", beside, "tor0-spine0 does not carry frames of 4200 bytes", "raise the MTU")
	mtu(9216)
	l.kill("spine0")
	l.kill("spine1")
	l.swapped("tor0-spine0", "tor1-spine1")
	l.startLabSwitch(spine)
	l.startLabSwitch(spine + 1)
	broken("two cables exchanged", beside, "2 cables are exchanged: tor0 port 5 leads to spine1 port 2, tor1 port 6 leads to spine0 port 1",
		"exchange the plugs in tor0 port 5 and tor1 port 6")
	l.kill("h5")
	broken("an agent off", beside, "h5", "connection refused", "start its agent")
}
