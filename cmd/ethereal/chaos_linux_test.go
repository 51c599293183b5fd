package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// chaos is a plant under random failures.
type chaos struct {
	*plant
	rng     *rand.Rand
	direct  string // targets files: the switches themselves
	proxied []string
	proxies [2][]*proxy // by controller and switch
	agents  []fabric.NodeID
	tr      *plantTraffic
}

// chaosEvent is one kind of failure: begin makes it and returns what ends it.
type chaosEvent struct {
	name   string
	weight int
	begin  func(c *chaos) (what string, end func())
	// during: the fabric converges while it lasts, too.
	during bool
}

func chaosEvents() []chaosEvent {
	return []chaosEvent{
		{"link down", 25, func(c *chaos) (string, func()) {
			l := c.f.Link(fabric.LinkID(c.f.Hosts() + c.rng.IntN(c.f.Links()-c.f.Hosts())))
			end := []fabric.End{l.A, l.B}[c.rng.IntN(2)]
			c.up(live.InterfaceName(c.f, end), false)
			return c.f.LinkName(l.ID), func() { c.up(live.InterfaceName(c.f, end), true) }
		}, true},
		{"switch killed", 12, func(c *chaos) (string, func()) {
			id := c.switchID(c.rng.IntN(c.f.Switches()))
			c.kill(c.f.Name(id))
			c.carrier(id, false)
			return c.f.Name(id), func() { c.carrier(id, true); c.startSwitch(id) }
		}, false},
		{"controller killed", 14, func(c *chaos) (string, func()) {
			i := c.rng.IntN(2)
			c.kill(fmt.Sprintf("controller%d", i))
			return fmt.Sprint(i), func() { c.startController(i, c.proxied[i], 1-i) }
		}, false},
		{"agent stalled", 10, func(c *chaos) (string, func()) {
			name := c.agent()
			c.procs[name].signal(syscall.SIGSTOP)
			return name, func() { c.procs[name].signal(syscall.SIGCONT) }
		}, false},
		{"agent killed", 7, func(c *chaos) (string, func()) {
			i := c.rng.IntN(len(c.agents))
			c.kill(c.f.Name(c.agents[i]))
			return c.f.Name(c.agents[i]), func() { c.startAgent(c.agents[i]) }
		}, false},
		{"streams cut", 12, func(c *chaos) (string, func()) {
			what, p := c.proxy()
			p.cut()
			return what, func() {}
		}, false},
		{"writes refused", 8, func(c *chaos) (string, func()) {
			what, p := c.proxy()
			p.set(0, 3)
			end := c.flip()
			return what, func() { end(); p.set(0, 0) }
		}, false},
		{"target slow", 8, func(c *chaos) (string, func()) {
			what, p := c.proxy()
			p.set(time.Duration(50+c.rng.IntN(1000))*time.Millisecond, 0)
			end := c.flip()
			return what, func() { end(); p.set(0, 0) }
		}, false},
		{"partition", 8, func(c *chaos) (string, func()) {
			what, p := c.proxy()
			p.partition(true)
			end := c.flip()
			return what, func() { end(); p.partition(false) }
		}, false},
	}
}

// flip takes a link down, so that there is something to write, and returns what
// takes it up again.
func (c *chaos) flip() func() {
	_, end := chaosEvents()[0].begin(c)
	return end
}

func (c *chaos) agent() string { return c.f.Name(c.agents[c.rng.IntN(len(c.agents))]) }

func (c *chaos) proxy() (string, *proxy) {
	i, s := c.rng.IntN(2), c.rng.IntN(c.f.Switches())
	return fmt.Sprintf("controller%d-%s", i, c.f.Name(c.switchID(s))), c.proxies[i][s]
}

// carrier takes all of a switch's links down, as those of a dead box are, or up.
func (c *chaos) carrier(id fabric.NodeID, up bool) {
	for p := 1; p <= c.f.Node(id).Ports(); p++ {
		c.up(live.InterfaceName(c.f, fabric.End{Node: id, Port: fabric.PortNo(p)}), up)
	}
}

func (c *chaos) startAgent(h fabric.NodeID) {
	c.ethereal(c.f.Name(h), "host", "agent", "--fabric=fabric.yaml", "--host="+c.f.Name(h), "--log-level=error",
		"--interface="+live.InterfaceName(c.f, fabric.End{Node: h, Port: 1}),
		"--controller="+agentsAddr(0), "--controller="+agentsAddr(1), "--state-file="+c.agentState(h))
}

// settled returns nil once both controllers are ready, all switches have a primary,
// and all agents have all updates.
func (c *chaos) settled() error {
	primary := map[string]bool{}
	for i := range 2 {
		if c.procs[fmt.Sprintf("controller%d", i)] == nil {
			continue
		}
		s, err := c.status(i)
		if err != nil {
			return err
		}
		for _, x := range s.Switches {
			if x.Primary && x.Synced {
				primary[x.Name] = true
			}
		}
		behind := 0
		for _, a := range s.Agents {
			behind += int(a.Behind)
		}
		held := slices.ContainsFunc(s.NotUp, func(l struct {
			Name                  string
			Up, Flapping, Drained bool
		}) bool {
			return l.Flapping
		})
		if !s.Ready || s.Busy || behind > 0 || len(s.Agents) != len(c.agents)+1 || held {
			return fmt.Errorf("controller %d: ready %v, busy %v, %d agents, %d behind; links not up: %v; switches: %+v", i, s.Ready, s.Busy,
				len(s.Agents), behind, s.NotUp, s.Switches)
		}
	}
	if len(primary) != c.f.Switches() {
		return fmt.Errorf("%d of %d switches have a primary and their tables", len(primary), c.f.Switches())
	}
	return nil
}

// converge waits until the fabric is as it should be: settled, proved from the
// tables, and the tables as desired.
func (c *chaos) converge(what string) {
	c.t.Helper()
	c.until(6*time.Minute, what, func() error {
		if err := c.settled(); err != nil {
			return err
		}
		return c.proved(c.direct)
	})
}

// TestChaosProcesses kills, stops, cuts and slows processes of a fabric with two
// controllers under traffic: after each event verify proves the tables and they are
// as desired. ETHEREAL_CHAOS_EVENTS asks for more than the few of a default run,
// ETHEREAL_CHAOS_SEED for others, ETHEREAL_CHAOS_ONLY for those whose names have it.
func TestChaosProcesses(t *testing.T) {
	systemtest.Only(t)
	if !inNamespaces(t) {
		return
	}
	number := func(name string, def int) int {
		if v, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return v
		}
		return def
	}
	events, seed := number("ETHEREAL_CHAOS_EVENTS", 4), number("ETHEREAL_CHAOS_SEED", 1)
	p := newPlant(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2}, "")
	c := &chaos{plant: p, rng: rand.New(rand.NewPCG(uint64(seed), 0)), agents: []fabric.NodeID{0, 2, 4}}
	c.direct = p.targets("direct.yaml", p.switchAddr)
	for i := range 2 {
		at := func(id fabric.NodeID) string { return fmt.Sprintf("127.0.0.1:%d", 23000+1000*i+int(id)) }
		c.proxied = append(c.proxied, p.targets(fmt.Sprintf("targets%d.yaml", i), at))
		for s := range p.f.Switches() {
			c.proxies[i] = append(c.proxies[i], newProxy(t, at(p.switchID(s)), p.switchAddr(p.switchID(s))))
		}
	}
	c.mountDisks()
	for i := range 2 {
		p.startController(i, c.proxied[i], 1-i)
	}
	for _, h := range c.agents {
		c.startAgent(h)
	}
	c.tr = p.traffic(20*time.Millisecond, []string{agentsAddr(0), agentsAddr(1)}, 1, 3, 5)
	c.converge("start")
	c.tr.lost(t)
	quiet := time.Now()
	time.Sleep(500 * time.Millisecond)
	if sent, lost := c.tr.lost(t); lost != 0 || sent == 0 {
		t.Fatalf("%d of %d packets lost although nothing failed for %v", lost, sent, time.Since(quiet))
	}

	type tally struct {
		name       string
		events     int
		sent, lost int64
		times      []time.Duration
	}
	only := os.Getenv("ETHEREAL_CHAOS_ONLY")
	kinds := slices.DeleteFunc(append(chaosEvents(), diskEvents()...), func(k chaosEvent) bool { return !strings.Contains(k.name, only) })
	var tallies []*tally
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for n := range events {
		pick := c.rng.IntN(total)
		i := 0
		for ; pick >= kinds[i].weight; i++ {
			pick -= kinds[i].weight
		}
		k := kinds[i]
		began := time.Now()
		what, end := k.begin(c)
		name := fmt.Sprintf("event %d: %s %s", n, k.name, what)
		if k.during {
			c.converge(name)
		} else {
			time.Sleep(time.Duration(c.rng.IntN(1500)) * time.Millisecond)
		}
		mid := time.Since(began)
		end()
		c.converge(name + ", over")
		kind := k.name
		if tier := strings.TrimRight(what, "0123456789"); k.name == "switch killed" { // a dead ToR takes its hosts along
			kind = tier + " killed"
		}
		at := slices.IndexFunc(tallies, func(x *tally) bool { return x.name == kind })
		if at < 0 {
			at, tallies = len(tallies), append(tallies, &tally{name: kind})
		}
		x := tallies[at]
		sent, lost := c.tr.lost(t)
		x.events, x.sent, x.lost, x.times = x.events+1, x.sent+sent, x.lost+lost, append(x.times, time.Since(began))
		t.Logf("%s: %d of %d packets lost, settled after %v and %v", name, lost, sent, mid.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		// These touch no packet: the switches forward as they are.
		untouched := []string{"controller killed", "agent stalled", "agent killed", "agent's state torn", "streams cut", "disk read-only", "log torn"}
		if slices.Contains(untouched, k.name) && lost > 0 {
			t.Errorf("%s: %d packets lost", name, lost)
		}
	}
	c.readLogs()
	c.readStates()
	for _, x := range tallies {
		slices.Sort(x.times)
		t.Logf("%-18s %4d events, %6d packets sent, %5d lost; to the end of it all: median %v, longest %v", x.name, x.events, x.sent, x.lost,
			x.times[len(x.times)/2].Round(time.Millisecond), x.times[len(x.times)-1].Round(time.Millisecond))
	}
}
