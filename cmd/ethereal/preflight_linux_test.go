package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/vishvananda/netlink"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/certs/certstest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// checked is a line of a preflight, as JSON has it.
type checked struct{ Light, Subject, Check, Seen, Remedy string }

// preflight runs the command.
func (p *plant) preflight(targets string, args ...string) (code int, lines []checked, errs string) {
	p.t.Helper()
	args = append([]string{"preflight", "-o=json", "--fabric=" + filepath.Join(p.dir, "fabric.yaml"), "--targets=" + targets}, args...)
	code, out, errs := etherealCommand(context.Background(), args...)
	if out != "" {
		if err := json.Unmarshal([]byte(out), &lines); err != nil {
			p.t.Fatalf("%v: %s", err, out)
		}
	}
	return code, lines, errs
}

// preflightTargets writes a targets file with a change to it.
func (p *plant) preflightTargets(name string, change func(string) string) string {
	var b strings.Builder
	b.WriteString("switches:\n")
	for i := range p.f.Switches() {
		id := p.switchID(i)
		fmt.Fprintf(&b, "  %s: {p4runtime: '%s', device_id: %d}\n", p.f.Name(id), p.switchAddr(id), id+1)
	}
	b.WriteString("hosts:\n")
	for h := range p.f.Hosts() {
		id := fabric.NodeID(h)
		fmt.Fprintf(&b, "  %s: {admin: 'unix:%s'}\n", p.f.Name(id), p.agentSocket(id))
	}
	return p.write(name, change(b.String()))
}

// expired writes a certificate that is no longer good, and its key.
func (p *plant) expired() []string {
	p.t.Helper()
	certstest.Issue(p.t, p.dir, "old", nil, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	at := filepath.Join(p.dir, "old")
	return []string{"--tls-ca=" + at + ".pem", "--tls-cert=" + at + ".pem", "--tls-key=" + at + ".key"}
}

// smaller returns the program's P4Info with room for one route.
func smaller() string {
	size := regexp.MustCompile(`size: 16384`)
	return size.ReplaceAllString(string(p4src.V1ModelP4InfoText()), "size: 1")
}

// TestPreflight: a fabric in order has no red and no yellow line, before there is a
// controller and beside one; each of a dozen ways to get it wrong is named, with its
// remedy.
func TestPreflight(t *testing.T) {
	systemtest.Only(t)
	if !inNamespaces(t) {
		return
	}
	p := newPlant(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1}, "")
	plain := func(s string) string { return s }
	good := p.preflightTargets("targets.yaml", plain)
	p.startAgents()
	inOrder := func(args ...string) {
		t.Helper()
		p.until(time.Minute, "all is in order", func() error {
			code, lines, errs := p.preflight(good, append(args, "--frame=4200", "--wait=10s", "--strict")...)
			lines = slices.DeleteFunc(lines, func(l checked) bool { return l.Light == "green" || l.Light == "unseen" })
			if code != exitOK || len(lines) > 0 {
				return fmt.Errorf("exit code %d: %+v %s", code, lines, errs)
			}
			return nil
		})
	}
	p.startController(0, good)
	p.until(time.Minute, "the controller has all in hand", func() error {
		s, err := p.status(0)
		if err == nil && (!s.Ready || s.Busy) {
			err = fmt.Errorf("ready %v, busy %v", s.Ready, s.Busy)
		}
		return err
	})
	inOrder("--admin="+adminAddr(0), "--admin-token-file="+filepath.Join(p.dir, "token"))
	p.kill("controller0")
	inOrder()

	// broken has a preflight find a fault.
	broken := func(name, targets string, want checked, args ...string) {
		t.Helper()
		p.until(30*time.Second, name, func() error {
			_, lines, errs := p.preflight(targets, append(args, "--wait=2s")...)
			if !slices.ContainsFunc(lines, func(l checked) bool {
				return l.Light == want.Light && l.Subject == want.Subject && l.Check == want.Check &&
					strings.Contains(l.Seen, want.Seen) && strings.Contains(l.Remedy, want.Remedy)
			}) {
				lines = slices.DeleteFunc(lines, func(l checked) bool { return l.Light == "green" || l.Light == "unseen" })
				return fmt.Errorf("want %+v, got %+v %s", want, lines, errs)
			}
			return nil
		})
	}
	replace := func(old, with string) func(string) string {
		return func(s string) string {
			if !strings.Contains(s, old) {
				t.Fatalf("targets lack %q: %s", old, s)
			}
			return strings.Replace(s, old, with, 1)
		}
	}
	tor0 := p.switchID(0)
	at := fmt.Sprintf("p4runtime: '%s', device_id: %d", p.switchAddr(tor0), tor0+1)
	change := func(with string) string { return p.preflightTargets("broken.yaml", replace(at, with)) }
	own := fmt.Sprintf("p4runtime: '%s'", p.switchAddr(tor0))

	broken("device id", change(own+", device_id: 77"), checked{"red", "tor0", "device id", "77", "correct device_id"})
	broken("address", change("p4runtime: '127.0.0.1:1', device_id: 3"), checked{"red", "tor0", "p4runtime", "connection refused", "start the switch's P4Runtime server, or correct p4runtime"})
	broken("gnmi elsewhere", change(at+", gnmi: '127.0.0.1:1'"), checked{"red", "tor0", "gnmi", "connection refused", "correct gnmi"})
	broken("no gnmi", change(at+", gnmi: none"), checked{"yellow", "tor0", "gnmi", "none", "run ethereal gnmi beside it"})
	ports := ""
	for n := 1; n <= p.f.Node(tor0).Ports(); n++ {
		ports += fmt.Sprintf("{name: 1/%d, id: %d}, ", n, n)
	}
	broken("port names", change(at+", ports: ["+ports+"]"), checked{"red", "tor0", "ports", "the switch has no 1/1, 1/2, 1/3", "correct the names under ports"})

	info, program := p.write("small.txtpb", smaller()), p.write("ethereal.json", string(p4src.V1ModelJSON()))
	small := p.preflightTargets("small.yaml", func(s string) string {
		return s + fmt.Sprintf("programs: {v1model: {p4info: %s, json: %s}}\n", info, program)
	})
	broken("tables", small, checked{"red", "tor0", "tables", "route_v4", "compile p4src/v1model with more room"})
	broken("another program", small, checked{"yellow", "tor0", "program", "runs another", "the controller replaces it"})

	conn, err := grpc.NewClient(p.switchAddr(tor0), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	schema, err := p4rt.NewSchema(p4src.V1ModelP4Info())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := p4rt.OpenPacketStream(t.Context(), p4.NewP4RuntimeClient(conn), schema,
		p4rt.Writer{DeviceID: uint64(tor0) + 1, ElectionID: p4rt.ElectionID{High: 7}.Proto()}, func(p4rt.PacketIn) {})
	if err != nil {
		t.Fatal(err)
	}
	broken("somebody else's controller", good, checked{"red", "tor0", "primary", "another controller is primary, with election id 7:0", "stop it"})
	foreign.Close()

	old := p.expired()
	broken("old certificate", good, checked{"red", "here", "our certificate", "expired", "scripts/lab-ca"}, old...)
	broken("no TLS at the switch", good, checked{"red", "tor0", "p4runtime", "TLS handshake", "speaks no TLS"}, old...)
	broken("controller gone", good, checked{"red", adminAddr(0), "controller", "connection refused", "start the controller"}, "--admin="+adminAddr(0))
	broken("agents mistaken", p.preflightTargets("mistaken.yaml", replace(p.agentSocket(0), p.agentSocket(1))), checked{"red", "h0", "agent", "is the agent of h1", "correct --host"})
	p.kill("h1")
	broken("no agent", good, checked{"red", "h1", "agent", "connection refused", "start its agent"})
	broken("no host", good, checked{"red", "fabric", "cabling", "h1 to tor1 port 1: nothing is received", "start ethereal host agent"})

	cut := live.InterfaceName(p.f, fabric.End{Node: p.switchID(2), Port: 1})
	p.up(cut, false)
	broken("port down", good, checked{"red", "spine0", "ports", "Ethernet1 down", "plug the cable in"})
	p.up(cut, true)
	link, err := netlink.LinkByName(cut)
	if err == nil {
		err = netlink.LinkSetMTU(link, 1500)
	}
	if err != nil {
		t.Fatal(err)
	}
	broken("small MTU", good, checked{"red", "fabric", "mtu", "tor0-spine0 does not carry frames of 4200 bytes", "raise the MTU"}, "--frame=4200")

	p.kill("tor0")
	p.startSwitch(tor0)
	broken("no program", good, checked{"yellow", "tor0", "program", "runs none", "--push"})
}
