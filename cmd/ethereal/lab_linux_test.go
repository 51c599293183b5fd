package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// labPage is docs/lab.md and what it names, carried out on a plant whose switches,
// hosts and controllers are processes of one network namespace: its management
// network is a part of the loopback's.
type labPage struct {
	*plant
	text string
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

// run carries out a command in the plant's folder.
func (l *labPage) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if args[0] == "ethereal" || args[0] == "bin/ethereal" {
		args[0] = os.Getenv("ETHEREAL_TEST_PROGRAM")
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), beEthereal+"=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must carries out a command that is to end well.
func (l *labPage) must(args ...string) string {
	l.t.Helper()
	out, err := l.run(args...)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// address is a node's on the management network, as the page has it.
func (l *labPage) address(id fabric.NodeID) string {
	n := l.f.Node(id)
	base := map[fabric.Tier]int{fabric.Host: 101, fabric.ToR: 11, fabric.Core: 19}[n.Tier]
	return fmt.Sprintf("127.0.2.%d", base+n.Index)
}

// certificates carries out the page's second chapter.
func (l *labPage) certificates() {
	l.t.Helper()
	args := l.command("scripts/lab-ca certs ")
	for h := range l.f.Hosts() { // "and so on for all hosts"
		id := fabric.NodeID(h)
		if one := fmt.Sprintf("host@%s,%s", l.f.Name(id), l.address(id)); !slices.Contains(args, one) {
			args = append(args, one)
		}
	}
	l.must(args...)
	l.must("sh", "-c", "cp certs/*.pem certs/*.key . && rm ca.key && mv ctl0.pem controller.pem && mv ctl0.key controller.key")
}

// startLabSwitch starts a switch by the page's command, which is tor0's: another's
// differs in the device id, the interfaces, the address and the certificate.
func (l *labPage) startLabSwitch(id fabric.NodeID, more ...string) {
	l.t.Helper()
	args := l.command("ethereal switch ")[1:]
	name, at := l.f.Name(id), l.address(id)+":9559"
	change := map[string]string{"17": fmt.Sprint(id + 1), "127.0.2.11:9559": at, "tor0.pem": name + ".pem", "tor0.key": name + ".key"}
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
// mutual TLS. Then the page's experiments end as they are expected to. Then each thing is broken that a lab gets wrong, and
// preflight names it and the remedy.
func TestLab(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two dozen processes")
	}
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not on the PATH")
	}
	if !inNamespaces(t) {
		return
	}
	text, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	l := &labPage{
		plant: newRack(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 4}, ""),
		text:  strings.ReplaceAll(string(text), "192.0.2.", "127.0.2."),
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scripts", "mininet"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(l.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, plan, _ := strings.Cut(l.text, "```sh\nbin/ethereal topo ")
	l.write("fabric.yaml", l.must(append([]string{"ethereal", "topo"}, words(plan)...)...))
	l.certificates()
	l.write("token", "0123456789abcdef\n")
	targets := "switches:\n"
	for i := range l.f.Switches() {
		id := l.switchID(i)
		targets += fmt.Sprintf("  %s: {p4runtime: %s:9559, device_id: %d}\n", l.f.Name(id), l.address(id), id+1)
		l.startLabSwitch(id)
	}
	targets += "hosts:\n"
	var sockets []string
	for h := range l.f.Hosts() {
		id := fabric.NodeID(h)
		name, admin := l.f.Name(id), l.address(id)+":9561"
		targets += fmt.Sprintf("  %s: {admin: %s}\n", name, admin)
		sockets = append(sockets, fmt.Sprintf("%q", name+".sock"))
		l.ethereal(name, l.unit("ethereal-hostagent@.service",
			"${HOST}", name, "%I", live.InterfaceName(l.f, fabric.End{Node: id, Port: 1}), "${ADMIN}", admin,
			"$CONTROLLERS", "--controller 127.0.2.1:9562 --controller 127.0.2.2:9562", "/run/ethereal-hostagent/control.sock", name+".sock",
			"/var/lib/ethereal-hostagent/%i.json", name+".json", "host.pem", name+".pem", "%d/key", name+".key")...)
	}
	l.write("targets.yaml", targets)
	l.must(l.command("ethereal validate ")...)
	before, beside := l.command("ethereal preflight --fabric fabric.yaml --targets targets.yaml --push"),
		l.command("ethereal preflight --fabric fabric.yaml --targets targets.yaml --controller")
	green := func(what string, args []string) {
		t.Helper()
		l.until(2*time.Minute, what, func() error {
			out, err := l.run(slices.Clone(args)...)
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			return err
		})
	}
	green("preflight before there are controllers", before)
	controller := func(c int, election, cert string) {
		l.ethereal(fmt.Sprintf("ctl%d", c), l.unit("ethereal-controller.service", "${ELECTION_ID}", election,
			"${AGENTS}", fmt.Sprintf("127.0.2.%d:9562", c+1), "${ADMIN}", fmt.Sprintf("127.0.2.%d:9560", c+1),
			"${PEER}", fmt.Sprintf("127.0.2.%d:9562", 2-c), "%d/token", "token",
			"/var/lib/ethereal-controller/drained.json", cert+"-drained.json",
			"/var/log/ethereal-controller/events.jsonl", cert+".jsonl", "controller.pem", cert+".pem", "%d/key", cert+".key")...)
	}
	controller(0, "2", "controller") // of two that start together the higher is primary, and its log has the writes
	controller(1, "1", "ctl1")
	green("preflight beside the controllers", beside)
	green("verify", l.command("ethereal verify "))

	_, deployment, _ := strings.Cut(l.text, "\n    {\"fabric\": ")
	deployment, _, _ = strings.Cut(deployment, "\n\n")
	l.write("lab.json", strings.NewReplacer(`"h0.sock", "h1.sock", ...`, strings.Join(sockets, ", "),
		"/var/log/ethereal-controller/events.jsonl", "controller.jsonl").Replace(`{"fabric": `+deployment))
	probed := l.command("ethereal preflight --deployment ")
	green("every path answers", probed)
	t.Log(l.must(l.command("ethereal run ")...))

	// broken has a preflight name what is wrong, and the remedy.
	broken := func(what string, args []string, want ...string) {
		t.Helper()
		l.until(time.Minute, what, func() error {
			out, _ := l.run(slices.Clone(args)...)
			for _, w := range want {
				if !strings.Contains(out, w) {
					return fmt.Errorf("%q is not said:\n%s", w, out)
				}
			}
			return nil
		})
	}
	broken("no ECN", beside, "the targets file has no tables.ecn", "write tables: {ecn:")
	spine := l.switchID(l.f.ToRs())
	l.kill("spine0")
	l.startLabSwitch(spine, "--priority-queues", "1")
	broken("no priority queues", probed, "48 of 96 paths answer every probe",
		"all paths that lose cross spine0, and no other does", "--priority-queues")

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
