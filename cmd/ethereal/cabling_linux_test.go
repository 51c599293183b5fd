package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// swapped exchanges the far ends of two links, as a hand does that plugs two
// cables into each other's port.
func (p *plant) swapped(a, b string) {
	p.t.Helper()
	var ends [2]string
	for i, name := range []string{a, b} {
		l, err := p.f.LinkByName(name)
		if err != nil {
			p.t.Fatal(err)
		}
		ends[i] = live.InterfaceName(p.f, p.f.Link(l).B)
	}
	for _, r := range [][2]string{{ends[0], "swap"}, {ends[1], ends[0]}, {"swap", ends[1]}} {
		link, err := netlink.LinkByName(r[0])
		if err == nil {
			err = netlink.LinkSetDown(link)
		}
		if err == nil {
			err = netlink.LinkSetName(link, r[1])
		}
		if err == nil {
			err = netlink.LinkSetUp(link)
		}
		if err != nil {
			p.t.Fatalf("%s to %s: %v", r[0], r[1], err)
		}
	}
}

// startAgents starts the hosts' agents.
func (p *plant) startAgents() {
	for h := range p.f.Hosts() {
		id := fabric.NodeID(h)
		p.ethereal(p.f.Name(id), "host", "agent", "--fabric="+filepath.Join(p.dir, "fabric.yaml"), "--host="+p.f.Name(id),
			"--interface="+live.InterfaceName(p.f, fabric.End{Node: id, Port: 1}), "--controller="+agentsAddr(0),
			"--listen-admin=unix:"+p.agentSocket(id), "--log-level=warn")
	}
}

func (p *plant) agentSocket(id fabric.NodeID) string {
	return filepath.Join(p.dir, p.f.Name(id)+".sock")
}

// topoCheck checks the cables.
func (p *plant) topoCheck(args ...string) (code int, r cabling.Report, text string) {
	p.t.Helper()
	args = append([]string{"topo", "check", "--fabric=" + filepath.Join(p.dir, "fabric.yaml"), "-o=json"}, args...)
	code, out, errs := etherealCommand(context.Background(), args...)
	if out != "" {
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			p.t.Fatalf("%v: %s", err, out)
		}
	}
	return code, r, out + errs
}

// TestCabling has real switches find two cables that were exchanged, before there
// is a controller and through one, and confirm all links where none were.
func TestCabling(t *testing.T) {
	systemtest.Only(t)
	if !inNamespaces(t) {
		return
	}
	kinds := map[string]string{"ours": ""}
	if path, err := exec.LookPath(os.Getenv("BMV2")); err == nil {
		kinds["bmv2"] = path
	}
	for name, binary := range kinds {
		t.Run(name, func(t *testing.T) { checkCabling(t, binary) })
	}
}

func checkCabling(t *testing.T, binary string) {
	p := newPlant(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2}, binary)
	targets := p.targets("targets.yaml", p.switchAddr)
	p.startAgents()
	healthy := func(args ...string) error {
		if code, r, text := p.topoCheck(append(args, "--wait=10s")...); code != exitOK || !r.OK() || r.Count(cabling.Confirmed) != p.f.Links() {
			return fmt.Errorf("exit code %d: %s", code, text)
		}
		return nil
	}
	if code, r, text := p.topoCheck("--targets="+targets, "--wait=1s"); code != exitRun || len(r.Unasked) != p.f.Switches() {
		t.Errorf("without the program: exit code %d: %s", code, text)
	}
	p.until(time.Minute, "all links are confirmed", func() error { return healthy("--targets="+targets, "--push") })
	p.startController(0, targets)
	p.until(time.Minute, "all links are confirmed through a controller", func() error {
		return healthy("--admin="+adminAddr(0), "--admin-token-file="+filepath.Join(p.dir, "token"))
	})
	if code, _, text := p.topoCheck("--targets="+targets, "--wait=1s"); code != exitRun || !strings.Contains(text, "another controller is primary") {
		t.Errorf("beside a controller: exit code %d: %s", code, text)
	}
	p.kill("controller0")
	for i := range p.f.Switches() {
		p.kill(p.f.Name(p.switchID(i)))
		p.kill(p.f.Name(p.switchID(i)) + "-gnmi")
	}
	p.swapped("tor0-spine0", "tor1-spine1")
	for i := range p.f.Switches() {
		p.startSwitch(p.switchID(i))
	}
	var text string
	p.until(time.Minute, "the cables are found", func() error {
		code, r, out := p.topoCheck("--targets="+targets, "--push", "--wait=3s")
		if text = out; code != exitRun || len(r.Faults) != 1 || r.Count(cabling.Confirmed) != p.f.Links()-2 {
			return fmt.Errorf("exit code %d: %s", code, out)
		}
		return nil
	})
	for _, want := range []string{
		"2 cables are exchanged: tor0 port 3 leads to spine1 port 2, tor1 port 4 leads to spine0 port 1",
		"exchange the plugs in tor0 port 3 and tor1 port 4",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not said:\n%s", want, text)
		}
	}
}
