package daemon

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestNeverSeenPorts has two switches name their interfaces as nobody expects: the
// controller is not ready, says which ports and links it is blind to, and is ready once
// they have the right names. A switch without gNMI does not hold it up.
func TestNeverSeenPorts(t *testing.T) {
	blind := []string{"tor0", "agg0"}
	setup := func(l *lab) {
		l.ports = map[fabric.NodeID]*targets.PortMap{}
		for i := range l.f.Switches() {
			id := fabric.NodeID(l.f.Hosts() + i)
			if !slices.Contains(blind, l.f.Name(id)) {
				continue
			}
			var ports []targets.Port
			for p := 1; p <= l.f.Node(id).Ports(); p++ {
				ports = append(ports, targets.Port{Name: "s1-eth" + string(rune('0'+p)), ID: uint32(p)})
			}
			m, err := targets.NewPortMap(ports)
			if err != nil {
				t.Fatal(err)
			}
			l.ports[id] = m
		}
	}
	inLabOf(t, setup, func(t *testing.T, l *lab) {
		cut := l.link("tor0-agg0", false)
		r := l.run(func(c *Config) {
			for id, target := range c.Targets {
				target.Ports = nil
				if l.f.Name(id) == "core3" {
					target.GNMI = ""
				}
				c.Targets[id] = target
			}
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		s := r.state()
		if s.Ready || !s.Started {
			t.Errorf("ready %v, started %v, want started and not ready", s.Ready, s.Started)
		}
		unseen := map[string][]string{}
		for _, x := range s.Switches {
			if !x.Synced || x.Ports != "fresh" && x.Name != "core3" {
				t.Errorf("%s: synced %v, ports %s", x.Name, x.Synced, x.Ports)
			}
			if x.NeverSeen != nil {
				unseen[x.Name] = x.NeverSeen
			}
		}
		four := []string{"Ethernet1", "Ethernet2", "Ethernet3", "Ethernet4"}
		if diff := cmp.Diff(map[string][]string{"tor0": four, "agg0": four}, unseen); diff != "" {
			t.Errorf("never seen (-want +got):\n%s", diff)
		}
		links := map[string][2]bool{}
		for _, x := range s.NotUp {
			links[x.Name] = [2]bool{x.UnseenA, x.UnseenB}
		}
		want := map[string][2]bool{}
		for i := range l.f.Links() {
			link := l.f.Link(fabric.LinkID(i))
			ends := [2]bool{slices.Contains(blind, l.f.Name(link.A.Node)), slices.Contains(blind, l.f.Name(link.B.Node))}
			if ends[0] || ends[1] {
				want[l.f.LinkName(fabric.LinkID(i))] = ends
			}
		}
		if diff := cmp.Diff(want, links); diff != "" || want[l.f.LinkName(cut)] != [2]bool{true, true} {
			t.Errorf("links not up (-want +got):\n%s", diff)
		}
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(body, "tor0: never seen over gNMI: Ethernet1, Ethernet2") {
			t.Errorf("GET /readyz: %d %s", w.Code, body)
		}

		l.ports = nil
		for _, name := range blind {
			l.switches[name].down()
			l.switches[name].boot(nil)
			l.switches[name].up()
		}
		l.port(l.f.Link(cut).A, false)
		l.port(l.f.Link(cut).B, false)
		if s := waitIdle(r); len(s.NotUp) != 1 || s.NotUp[0].Name != "tor0-agg0" || !s.NotUp[0].DownA || !s.NotUp[0].DownB || s.NotUp[0].UnseenA {
			t.Errorf("links not up: %+v", s.NotUp)
		}
		l.check(r)
		r.stop()
	})
}
