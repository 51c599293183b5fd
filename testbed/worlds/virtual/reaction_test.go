package virtual

import (
	"context"
	"math"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// TestReaction: how soon the agents flip, under each notifier, for two seeds.
func TestReaction(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	runs := demo(t, func(s *scenario.Scenario) {
		s.Seeds, s.Host.TailProbe = scenario.Seeds{1, 9}, false // or agents find out before any timer
	}, func(r scenario.Run) bool { return ethereal(r) && r.Notifier != scenario.NotifyNone })
	for _, run := range runs {
		t.Run(run.Slug(), func(t *testing.T) {
			seen := newWitness(run.Fabric)
			w, err := newWorld(lab, run, scenario.Observer{}, seen)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.simulate(context.Background()); err != nil {
				t.Fatal(err)
			}
			r, err := w.measure()
			if err != nil {
				t.Fatal(err)
			}
			checkDelivery(t, w, r)
			if run.Notifier != scenario.NotifyTimeout && r.Timeouts != 0 {
				t.Errorf("%d time-outs: someone waited for the slowest notifier", r.Timeouts)
			}
			rtt, cut := baseRTT(run.Fabric), run.Events[0]
			control := run.Scenario.Control
			worst, flips := fabric.Time(0), 0
			for _, f := range w.flips {
				if f.Reason == "slow" {
					continue // load that has moved slows other paths; no notification says that
				}
				if flips++; f.Reason == "loss" {
					continue // a receiver's question came before the notifier's word
				}
				host, err := run.Fabric.NodeByName(f.Host)
				if err != nil {
					t.Fatal(err)
				}
				at := fabric.Time(f.Time * float64(fabric.Microsecond))
				switch run.Notifier {
				case scenario.NotifyQuench:
					quenched, ok := seen.quenched[host]
					// Notified by a quench of its own packet, or by the notice that leaves when the port's death is
					// known.
					if noticed := cut.At + cut.Detection; at-noticed > rtt && (!ok || at-quenched > rtt) {
						t.Errorf("%s flipped at %v; the notice left at %v, the first of its packets that met the dead port was quenched at %v (%v), "+
							"want within %v", f.Host, at, noticed, quenched, ok, rtt)
					}
					// Before it is quenched, a host must have a packet for the
					// dead port: that takes up to a turn of its queue pairs,
					// which the demo's own seed does without.
					late := at - seen.firstHit[host]
					worst = max(worst, late)
					want := cut.Detection + rtt
					if run.Seed != 1 {
						want += fabric.Time(r.QPsPerHostMax) * run.Fabric.Link(0).Rate.TimeFor(fullPacket)
					}
					if late > want {
						t.Errorf("%s flipped %v after its first packet met the dead link, want within %v", f.Host, late, want)
					}
				case scenario.NotifyGNMI:
					worst = max(worst, at-cut.At)
					if want := cut.Detection + control.GNMIDelay + control.ComputeDelay + control.PushDelay; at-cut.At > want {
						t.Errorf("%s flipped %v after the cut, want within %v", f.Host, at-cut.At, want)
					}
				case scenario.NotifyTimeout:
					// A timer runs from the last packet sent on its queue pair,
					// which the link swallowed at most a path's delay later.
					if at < cut.At+run.Scenario.Host.RTO {
						t.Errorf("%s flipped at %v, before any timer set after the cut can have expired", f.Host, at)
					}
					late := fabric.Time(math.MaxInt64)
					for _, lost := range seen.lost[host] {
						if d := at - lost - run.Scenario.Host.RTO; d < late && d > -rtt {
							late = d
						}
					}
					worst = max(worst, late)
					if late > rtt {
						t.Errorf("%s flipped at %v: no packet of its was lost one RTO of %v before", f.Host, at, run.Scenario.Host.RTO)
					}
				}
			}
			// By notices and by gNMI the hosts know before the all-reduce first uses the link.
			if knew := run.Notifier != scenario.NotifyTimeout && run.Collective.Kind == "all-reduce"; flips == 0 != knew {
				t.Errorf("%d flips", flips)
			}
			t.Logf("%d flips, worst reaction %v, base RTT %v", len(w.flips), worst, rtt)
		})
	}
}

// checkDelivery: the collective finished, and every byte of it was delivered
// once. (That no message completes twice the run itself checks, and fails.)
func checkDelivery(t *testing.T, w *world, r *report.Result) {
	t.Helper()
	if !r.Finished {
		t.Fatalf("not finished at %v us", r.EndTime)
	}
	delivered, messages := uint64(0), uint64(0)
	for _, h := range w.hosts {
		s := h.nic.Stats()
		delivered += s.BytesDelivered
		messages += s.Delivered
		if h.core.OpenQPs() != 0 || h.core.SendingMessages() != 0 || len(h.arriving) != 0 {
			t.Errorf("%s: %d queue pairs, %d messages out and %d in are left over", w.f.Name(h.id), h.core.OpenQPs(), h.core.SendingMessages(), len(h.arriving))
		}
	}
	if delivered != uint64(w.job.(collectiveJob).TotalBytes()) {
		t.Errorf("%d bytes delivered of %d", delivered, w.job.(collectiveJob).TotalBytes())
	}
	if messages == 0 {
		t.Error("no message delivered")
	}
}
