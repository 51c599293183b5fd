package virtual

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostprocess"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

const liveStep = 10 * fabric.Microsecond

// playLive has live hosts, with their bytes and CRCs, play a collective over a network
// that loses what goes by one label from 300 us on and delays even source ports, and
// returns the event log of host 0. It is notified of the dead link by a quench, and by a
// controller that also asks for a probe.
func playLive(t *testing.T, f *fabric.Fabric, scheme string) string {
	t.Helper()
	var log bytes.Buffer
	ranks, done := make([]*hostprocess.Rank, f.Hosts()), 0
	for i := range ranks {
		c := hostprocess.Config{Fabric: f, Host: fabric.NodeID(i), Notify: func(e hostproto.Event) {
			switch e.Kind {
			case hostproto.Done:
				done++
			case hostproto.Fault:
				t.Errorf("host %d: %s", i, e.Text)
			}
		}}
		if i == 0 {
			c.EventLog = &log
		}
		var err error
		if ranks[i], err = hostprocess.New(c); err != nil {
			t.Fatal(err)
		}
		if err := ranks[i].Configure(0, host.Settings{Nonce: 7,
			Seed: 3, Scheme: scheme, RTO: fabric.Millisecond, ResendOnFlip: true, TailProbe: true,
			BatchWindow: fabric.Microsecond, FailedMemory: 3 * fabric.Millisecond,
		}); err != nil {
			t.Fatal(err)
		}
		spec := collective.Spec{Kind: collective.AllToAll, Ranks: f.Hosts(), Bytes: 1_600_000}
		if err := ranks[i].Prepare(hostproto.Job{Spec: spec, Key: 9}); err != nil {
			t.Fatal(err)
		}
		if err := ranks[i].Start(0); err != nil {
			t.Fatal(err)
		}
	}
	type flight struct {
		at    fabric.Time
		frame []byte
	}
	var wire []flight
	buf := make([]byte, ranks[0].MaxFrame())
	dead, _ := f.LinkBetween(f.ToRID(0), fabric.NodeID(f.Hosts()+f.ToRs()))
	for now := fabric.Time(0); done < len(ranks); now += liveStep {
		if now > 10*fabric.Second {
			t.Fatalf("%s: %d of %d ranks are done", scheme, done, len(ranks))
		}
		switch now {
		case 5 * fabric.Millisecond:
			ranks[0].Quench(now, frame.Quench{
				Dst: f.HostAddr4(3), Switch: f.ToRID(0), Port: f.Link(dead).A.Port, Epoch: 1,
			})
		case 150 * fabric.Microsecond: // before silence could move what the link carries
			ranks[0].Update(now, &statepb.Update{
				Instance: "one run", Epoch: 1, Snapshot: true, Links: []*statepb.LinkState{{Link: uint32(dead), Epoch: 1}},
			})
		case 9 * fabric.Millisecond:
			ranks[0].Probe(now, &statepb.ProbeRequest{Id: 5, Dst: 2, Label: 1, Packets: 3, TimeoutNs: 5e5}, func(*statepb.ProbeResult) {})
		}
		for i, r := range ranks {
			if at, ok := r.Wake(); ok && at <= now {
				r.Tick(now)
			}
			n, ok := r.Next(now, buf)
			if !ok {
				continue
			}
			x := flight{now + liveStep, bytes.Clone(buf[:n])}
			if p, err := frame.Parse(buf[:n]); err == nil {
				dst, _ := f.HostByAddr(p.Destination())
				if p.SourcePort() == frame.SourcePort(0) && f.ToROf(dst) != f.ToROf(fabric.NodeID(i)) && now > 300*fabric.Microsecond {
					continue
				}
				if p.SourcePort()%2 == 0 {
					x.at += 20 * liveStep
				}
			}
			wire = append(wire, x)
		}
		kept := wire[:0]
		for _, x := range wire {
			if x.at > now {
				kept = append(kept, x)
				continue
			}
			for _, r := range ranks { // who it is not for takes no notice
				r.Receive(now, bytes.Clone(x.frame))
			}
		}
		wire = kept
	}
	return log.String()
}

// anyJob takes every message for one of its own.
type anyJob struct{ collectiveJob }

func (anyJob) sent(fabric.Time, collective.ID) error { return nil }

// TestLiveHostsLog: what a live host received, given to a host of the virtual world,
// has the same effects in the same order: both are shells of one core.
func TestLiveHostsLog(t *testing.T) {
	oneGoroutine(t)
	lab := newLab(t)
	want := map[string][]string{ // effects that the log is to have
		"ethereal": {
			`"do":"open"`, `"do":"relabel"`, `"do":"resend"`, `"Reason":"push"`, `"call":"quench"`, `"call":"overdue"`, `"call":"update"`, `"call":"acked"`,
			`"do":"probed","probed":{"ID":1,"Sent":3,"Lost":0`, `"do":"sent"`,
		},
		"hopper": {`"do":"open"`, `"do":"hold"`, `"do":"label"`, `"do":"sent"`},
		"reps":   {`"do":"open"`, `"do":"label"`, `"do":"sent"`},
	}
	for name, effects := range want {
		t.Run(name, func(t *testing.T) {
			run := demo(t, func(s *scenario.Scenario) {
				s.Fabric = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2}
				s.Failures, s.Host.Payload = []scenario.Failure{{Name: "healthy"}}, 1024
				s.Schemes = []scenario.Scheme{{Name: name}}
			}, func(scenario.Run) bool { return true })[0]
			live := playLive(t, run.Fabric, name)
			for _, text := range effects {
				if !strings.Contains(live, text) {
					t.Errorf("the live host's log has no %q", text)
				}
			}
			w, err := newWorld(lab, run, scenario.Observer{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			settings, err := run.Hosts()
			if err != nil {
				t.Fatal(err)
			}
			w.job = anyJob{w.job.(collectiveJob)}
			var virtual bytes.Buffer
			var h *hostShell
			calls := 0
			err = host.ReadLog(strings.NewReader(live), run.Fabric, func(r host.Record) (err error) {
				switch {
				case r.New != nil:
					c := r.New.Config
					c.Log = host.NewLog(&virtual)
					h, err = w.newHostOf(c, &settings)
				case r.Call != "":
					err = r.Play(h.core)
					calls++
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if w.fault != nil {
				t.Error(w.fault)
			}
			if diff := cmp.Diff(strings.Split(live, "\n"), strings.Split(virtual.String(), "\n")); diff != "" {
				t.Errorf("live (-) and virtual (+) differ:\n%.3000s", diff)
			}
			t.Logf("%d calls, %d effects", calls, strings.Count(live, `"do":`))
		})
	}
}
