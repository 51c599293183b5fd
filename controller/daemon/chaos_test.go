package daemon

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/verify"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

var (
	chaosEvents = flag.Int("chaos.events", 100, "events of TestChaos")
	chaosSeed   = flag.Uint64("chaos.seed", 1, "seed of TestChaos")
)

// chaos is a lab in which everything fails.
type chaos struct {
	*lab
	t      *testing.T
	rng    *rand.Rand
	names  []string            // of the switches
	links  []fabric.LinkID     // between switches
	down   map[uint32]bool     // links that are down
	live   map[string]*running // controllers, by name
	agents map[string]*agents
	counts map[string]int
}

// agents are a host agent that listens and one that is stalled, of a controller.
type agents struct {
	srv     *grpc.Server
	done    sync.WaitGroup
	cancel  context.CancelFunc
	conn    *grpc.ClientConn
	mu      sync.Mutex
	links   map[uint32]*statepb.LinkState
	service *notify.Service
}

func (c *chaos) start(name string, own uint64) {
	r := c.run(func(cfg *Config) { cfg.Own, cfg.Dial = own, c.dialer(name) })
	a := &agents{srv: grpc.NewServer(), links: map[uint32]*statepb.LinkState{}, service: r.Service()}
	staterpc.RegisterFabricStateServer(a.srv, r.Service())
	lis := bufconn.Listen(1 << 12)
	a.done.Go(func() { a.srv.Serve(lis) })
	conn, err := grpc.NewClient("passthrough:controller", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		c.t.Fatal(err)
	}
	a.conn = conn
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	for host := range uint32(2) {
		w, err := staterpc.NewFabricStateClient(conn).Watch(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		hello := &statepb.AgentMessage{Message: &statepb.AgentMessage_Hello{Hello: &statepb.Hello{Host: host}}}
		if err := w.Send(hello); err != nil {
			c.t.Fatal(err)
		}
		if host == 1 {
			break // it never reads
		}
		a.done.Go(func() {
			for {
				u, err := w.Recv()
				if err != nil {
					return
				}
				a.mu.Lock()
				notify.Apply(a.links, u)
				a.mu.Unlock()
			}
		})
	}
	c.live[name], c.agents[name] = r, a
}

func (c *chaos) kill(name string) {
	r, a := c.live[name], c.agents[name]
	delete(c.live, name)
	delete(c.agents, name)
	r.stop()
	a.cancel()
	a.conn.Close()
	a.srv.Stop()
	a.done.Wait()
	a.service.Wait()
	synctest.Wait()
}

var owns = map[string]uint64{"first": 1, "second": 2}

// event makes one thing fail, or work again.
func (c *chaos) event() {
	s := c.switches[c.names[c.rng.IntN(len(c.names))]]
	kinds := []string{"link", "link", "link", "one end", "management", "reboot", "controller", "cut", "partition", "errors", "slow"}
	kind := kinds[c.rng.IntN(len(kinds))]
	c.counts[kind]++
	switch kind {
	case "link":
		id := c.links[c.rng.IntN(len(c.links))]
		if downs := c.downs(); len(downs) >= maxDown {
			id = downs[c.rng.IntN(len(downs))]
		}
		c.down[uint32(id)] = !c.down[uint32(id)]
		c.link(c.f.LinkName(id), !c.down[uint32(id)])
	case "one end":
		id := c.links[c.rng.IntN(len(c.links))]
		up := !c.down[uint32(id)]
		c.port(c.f.Link(id).A, !up)
		synctest.Wait()
		c.port(c.f.Link(id).A, up)
	case "management":
		if s.srv != nil {
			s.down()
		} else {
			s.up()
		}
	case "reboot":
		down := map[uint32]bool{}
		for p := 1; p <= c.f.Node(s.id).Ports(); p++ {
			id, _ := c.f.LinkAt(s.id, fabric.PortNo(p))
			down[uint32(p)] = c.down[uint32(id)]
		}
		s.down()
		s.boot(down)
		s.up()
	case "controller":
		names := slices.Sorted(maps.Keys(owns))
		name := names[c.rng.IntN(len(names))]
		if c.live[name] != nil {
			c.kill(name)
		} else {
			c.start(name, owns[name])
		}
	case "cut":
		for name := range owns {
			c.block(route{name, c.f.Name(s.id)}, false)
		}
	case "partition":
		names := slices.Sorted(maps.Keys(owns))
		w := route{names[c.rng.IntN(len(names))], c.f.Name(s.id)}
		c.block(w, c.rng.IntN(2) == 0)
	case "errors", "slow":
		n := c.rng.IntN(5) + 1
		s.mu.Lock()
		s.fault = func(*p4.WriteRequest) error {
			s.mu.Lock()
			n--
			done := n < 0
			s.mu.Unlock()
			switch {
			case done:
				return nil
			case kind == "slow":
				time.Sleep(3 * time.Second)
				return nil
			}
			return status.Error(codes.ResourceExhausted, "not now")
		}
		s.mu.Unlock()
	}
}

// maxDown is how many links are down at one time at most.
const maxDown = 5

// downs returns the links that are down.
func (c *chaos) downs() (ids []fabric.LinkID) {
	for _, id := range c.links {
		if c.down[uint32(id)] {
			ids = append(ids, id)
		}
	}
	return ids
}

// heal ends all that keeps a controller from its switches.
func (c *chaos) heal() {
	for _, name := range c.names {
		s := c.switches[name]
		if s.srv == nil {
			s.up()
		}
		s.mu.Lock()
		s.fault = nil
		s.mu.Unlock()
		for controller := range owns {
			c.mu.Lock()
			blocked := c.blocked[route{controller, name}]
			c.mu.Unlock()
			if blocked {
				c.block(route{controller, name}, false)
			}
		}
	}
	for name, own := range owns {
		if c.live[name] == nil {
			c.start(name, own)
		}
	}
}

// settled reports whether every controller is ready, and every switch has
// exactly one for primary.
func (c *chaos) settled() error {
	primaries := map[string]int{}
	for name, r := range c.live {
		s := r.state()
		if !s.Ready || s.Busy {
			return fmt.Errorf("%s is not ready", name)
		}
		for _, x := range s.Switches {
			if x.Primary {
				primaries[x.Name]++
			}
		}
		held := map[fabric.LinkID]bool{}
		for _, l := range s.NotUp {
			if l.Flapping {
				return fmt.Errorf("%s flaps", l.Name)
			}
			id, err := c.f.LinkByName(l.Name)
			if err != nil {
				return err
			}
			held[id] = true
		}
		for _, id := range c.links {
			if held[id] != c.down[uint32(id)] {
				return fmt.Errorf("%s has %s down: %v", name, c.f.LinkName(id), held[id])
			}
		}
		a := c.agents[name]
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, id := range c.links {
			if l := a.links[uint32(id)]; (l != nil && !l.GetUp()) != c.down[uint32(id)] {
				return fmt.Errorf("the agent of %s has %s as %v", name, c.f.LinkName(id), l)
			}
		}
	}
	for _, name := range c.names {
		if primaries[name] != 1 {
			return fmt.Errorf("%s has %d primaries", name, primaries[name])
		}
	}
	return nil
}

// prove reads all tables back, compares them with what is desired, and follows
// packets through them.
func (c *chaos) prove() error {
	pipeline, err := loadPipeline()
	if err != nil {
		return err
	}
	core, err := controller.New(c.live["first"].cfg.Core)
	if err != nil {
		return err
	}
	for _, id := range c.links {
		if err := core.PortState(0, c.f.Link(id).A.Node, c.f.Link(id).A.Port, !c.down[uint32(id)]); err != nil {
			return err
		}
	}
	n := verify.Network{Fabric: c.f, Up: core.LinkUp, Tables: map[fabric.NodeID][]controller.Entry{}}
	for _, name := range c.names {
		s := c.switches[name]
		conn, err := c.dial(name)
		if err != nil {
			return err
		}
		held, err := p4rt.Fetch(context.Background(), p4.NewP4RuntimeClient(conn), pipeline.Schema(), uint64(s.id)+1)
		conn.Close()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(core.Desired(s.id), held.Entries); diff != "" {
			return fmt.Errorf("%s: tables (-desired +held):\n%s", name, diff)
		}
		n.Tables[s.id] = held.Entries
	}
	r, err := verify.Check(context.Background(), n, verify.Options{Problems: 1})
	if err == nil && !r.OK() {
		err = fmt.Errorf("%s", r.Problems[0].Format(c.f))
	}
	return err
}

// TestChaos has links, switches, controllers, streams and targets fail at
// random, under traffic, and proves the tables each time after all is healed but
// the links.
func TestChaos(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		c := &chaos{
			lab: l, t: t, rng: rand.New(rand.NewPCG(*chaosSeed, 0)), names: slices.Sorted(maps.Keys(l.switches)),
			down: map[uint32]bool{}, live: map[string]*running{}, agents: map[string]*agents{}, counts: map[string]int{},
		}
		for id := l.f.Hosts(); id < l.f.Links(); id++ {
			c.links = append(c.links, fabric.LinkID(id))
		}
		c.start("first", 1)
		c.start("second", 2)
		fates, longest := map[string]int{}, time.Duration(0)
		for i := 0; i < *chaosEvents; {
			tr := c.traffic(uint64(i), nil)
			for range 10 {
				c.event()
				i++
				time.Sleep(time.Duration(c.rng.IntN(50)) * time.Millisecond)
			}
			ok, lost := tr.stop()
			fates[arrived] += ok
			for k, n := range lost {
				if strings.HasPrefix(k, dropped+" by ") {
					k = dropped
				}
				fates[k] += n
			}
			c.heal()
			healed := time.Now()
			for err := c.settled(); err != nil; err = c.settled() {
				if time.Since(healed) > 3*time.Minute {
					t.Fatalf("after %d events, 3 minutes after all was healed: %v", i, err)
				}
				time.Sleep(500 * time.Millisecond)
				synctest.Wait()
			}
			longest = max(longest, time.Since(healed))
			synctest.Wait()
			if err := c.prove(); err != nil {
				t.Fatalf("after %d events: %v", i, err)
			}
		}
		t.Logf("seed %d, events %v; packets %v; settled within %v", *chaosSeed, c.counts, fates, longest)
		for name := range owns {
			c.kill(name)
		}
	})
}
