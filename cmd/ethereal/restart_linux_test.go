package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestRestartProcesses kills a controller again and again under traffic, with a link
// down, by SIGKILL and by SIGTERM in turn, and starts it again: no packet is lost, and
// nothing is written to any switch. ETHEREAL_RESTARTS asks for more than a few.
func TestRestartProcesses(t *testing.T) {
	systemtest.Only(t)
	if !inNamespaces(t) {
		return
	}
	restarts := 4
	if n, err := strconv.Atoi(os.Getenv("ETHEREAL_RESTARTS")); err == nil {
		restarts = n
	}
	p := newPlant(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}, "")
	direct := p.targets("direct.yaml", p.switchAddr)
	at := func(id fabric.NodeID) string { return fmt.Sprintf("127.0.0.1:%d", 23000+id) }
	targets := p.targets("targets.yaml", at)
	var proxies []*proxy // all that is written goes through them
	for s := range p.f.Switches() {
		proxies = append(proxies, newProxy(t, at(p.switchID(s)), p.switchAddr(p.switchID(s))))
	}
	wrote := func() (n int) {
		for _, x := range proxies {
			n += x.wrote()
		}
		return n
	}
	settled := func(what string) {
		t.Helper()
		p.until(time.Minute, what, func() error {
			s, err := p.status(0)
			switch {
			case err != nil:
				return err
			case !s.Ready || s.Busy || len(s.NotUp) != 1:
				return fmt.Errorf("ready %v, busy %v, links not up: %v", s.Ready, s.Busy, s.NotUp)
			}
			return p.proved(direct)
		})
	}
	p.up(live.InterfaceName(p.f, p.f.Link(fabric.LinkID(p.f.Hosts())).B), false)
	p.startController(0, targets)
	tr := p.traffic(5*time.Millisecond, []string{agentsAddr(0)}, 1, 3, 5)
	settled("start")
	tr.lost(t)
	if wrote() == 0 {
		t.Fatal("the start wrote nothing that was counted")
	}
	all, writes, packets := int64(0), 0, int64(0)
	for n := range restarts {
		if n%2 == 0 {
			p.kill("controller0")
		} else {
			x := p.procs["controller0"]
			x.signal(syscall.SIGTERM)
			<-x.done
			delete(p.procs, "controller0")
		}
		time.Sleep(time.Duration(n%5) * 100 * time.Millisecond)
		p.startController(0, targets)
		settled(fmt.Sprintf("restart %d", n))
		sent, lost := tr.lost(t)
		all, packets, writes = all+lost, packets+sent, writes+wrote()
	}
	t.Logf("%d restarts: %d of %d packets lost, %d requests that write", restarts, all, packets, writes)
	if all > 0 || writes > 0 || packets == 0 {
		t.Fail()
	}
}
