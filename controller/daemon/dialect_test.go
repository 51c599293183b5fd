package daemon

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestChipDialect manages switches that number and name their ports as a Tofino
// under Stratum does, and have no use for port_of_uplink.
func TestChipDialect(t *testing.T) {
	profile, err := kinds.All().ByName("stratum-tofino")
	if err != nil {
		t.Fatal(err)
	}
	inLabOf(t, func(l *lab) {
		l.profile = profile
		l.ports = map[fabric.NodeID]*targets.PortMap{}
		for i := range l.f.Switches() {
			id := fabric.NodeID(l.f.Hosts() + i)
			var ports []targets.Port
			for p := range l.f.Node(id).Ports() {
				// Every board has its own order.
				n := (p*5 + i) % 32
				ports = append(ports, targets.Port{Name: fmt.Sprintf("%d/0", n+1), ID: uint32(128 + 4*n), Lanes: 4})
			}
			m, err := targets.NewPortMap(ports)
			if err != nil {
				t.Fatal(err)
			}
			l.ports[id] = m
		}
	}, func(t *testing.T, l *lab) {
		l.link("agg0-core1", false)
		r := l.run(nil)
		if s := waitIdle(r); s.Epoch != 1 || len(s.NotUp) != 1 || s.NotUp[0].Name != "agg0-core1" {
			t.Errorf("epoch %d, links not up %+v", s.Epoch, s.NotUp)
		}
		l.check(r)
		check := func(when string) {
			t.Helper()
			for name, s := range l.switches {
				for p := 1; p <= l.f.Node(s.id).Ports(); p++ {
					number, _ := l.ports[s.id].ID(fabric.PortNo(p))
					want := byte(0)
					if link, _ := l.f.LinkAt(s.id, fabric.PortNo(p)); l.carries(link) {
						want = 1
					}
					s.mu.Lock()
					if up, ok := s.portStates[uint16(number)]; !ok || up != want {
						t.Errorf("%s: %s was sent %v, %d of port %d, want %d", when, name, ok, up, p, want)
					}
					s.mu.Unlock()
				}
			}
		}
		check("at the start")
		l.wrote()
		l.link("tor2-agg3", false)
		synctest.Wait()
		if s := waitIdle(r); len(s.NotUp) != 2 {
			t.Errorf("links not up %+v", s.NotUp)
		}
		check("when a link went down")
		l.check(r)
		if n, _ := l.wrote(); n == 0 || n > 100 {
			t.Errorf("%d updates for a link", n)
		}
		l.link("tor2-agg3", true)
		synctest.Wait()
		waitIdle(r)
		check("when it was back")
		// What a chip latched of a flap too short for gNMI is put right.
		tor := l.switches["tor0"]
		number, _ := l.ports[tor.id].ID(4)
		tor.mu.Lock()
		tor.portStates[uint16(number)] = 0
		tor.mu.Unlock()
		time.Sleep(30*time.Second + 2*time.Second)
		synctest.Wait()
		check("a while after a flap")
		l.wrote()
		r.stop()

		// Another controller finds nothing to do.
		r = l.run(nil)
		waitIdle(r)
		if n, pushes := l.wrote(); n != 0 || pushes != 0 {
			t.Errorf("after the restart %d updates, %d pipelines, want none", n, pushes)
		}
		r.stop()
	})
}
