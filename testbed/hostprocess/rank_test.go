package hostprocess

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// TestJob plays a collective on ranks whose frames are handed over in virtual
// time, losing every thirtieth: all messages arrive once, with the checksums they
// were posted with.
func TestJob(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	ranks := make([]*Rank, f.Hosts())
	posted, received, done := map[uint64]uint32{}, map[uint64]uint32{}, 0
	for i := range ranks {
		r, err := New(Config{Fabric: f, Host: fabric.NodeID(i), Origin: 1000, Notify: func(e hostproto.Event) {
			switch e.Kind {
			case hostproto.Posted:
				posted[e.ID] = e.CRC
			case hostproto.Received:
				if _, twice := received[e.ID]; twice {
					t.Errorf("message %v arrived twice", collective.ID(e.ID))
				}
				received[e.ID] = e.CRC
			case hostproto.Done:
				done++
			case hostproto.Fault:
				t.Errorf("host %d: %s", i, e.Text)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Configure(0, host.Settings{Nonce: 7,
			Seed: 1, ResendOnFlip: true, TailProbe: true, RTO: fabric.Millisecond,
		}); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(0); err == nil {
			t.Error("a job was started that nobody prepared")
		}
		spec := collective.Spec{Kind: collective.AllReduce, Algorithm: collective.HalvingDoubling, Ranks: f.Hosts(), Bytes: 20_000}
		if err := r.Prepare(hostproto.Job{Spec: spec, Key: 9}); err != nil {
			t.Fatal(err)
		}
		if err := r.Start(2000); err != nil {
			t.Fatal(err)
		}
		ranks[i] = r
	}
	buf := make([]byte, ranks[0].MaxFrame())
	now, frames := fabric.Time(0), 0
	for done < len(ranks) && now < 10*fabric.Second {
		for _, r := range ranks {
			if at, ok := r.Wake(); ok && at <= now {
				r.Tick(now)
			}
			n, ok := r.Next(now, buf)
			if frames++; !ok || frames%30 == 0 {
				continue
			}
			for _, to := range ranks { // as in promiscuous mode
				if to != r {
					to.Receive(now, bytes.Clone(buf[:n]))
				}
			}
		}
		now += 10 * fabric.Microsecond
	}
	if done != len(ranks) || len(posted) == 0 || len(posted) != len(received) {
		t.Fatalf("%d of %d ranks done, %d messages posted, %d received", done, len(ranks), len(posted), len(received))
	}
	for id, crc := range posted {
		if received[id] != crc {
			t.Errorf("message %v: posted with %#x, received with %#x", collective.ID(id), crc, received[id])
		}
	}
}

// TestProbes has a controller ask for probes: those that are answered are not
// lost, those down a dead path are, and what cannot be sent is not.
func TestProbes(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	var ranks [2]*Rank
	for i := range ranks {
		if ranks[i], err = New(Config{Fabric: f, Host: fabric.NodeID(i), Notify: func(e hostproto.Event) { t.Errorf("host %d: %+v", i, e) }}); err != nil {
			t.Fatal(err)
		}
		// Hosts that share a nonce do not begin with an exchange, which would be part of the first trip.
		if err := ranks[i].Configure(0, host.Settings{Nonce: 7}); err != nil {
			t.Fatal(err)
		}
	}
	got := map[uint64]*statepb.ProbeResult{}
	ask := func(p *statepb.ProbeRequest) {
		ranks[0].Probe(0, p, func(r *statepb.ProbeResult) { got[p.GetId()] = r })
	}
	for i, p := range []*statepb.ProbeRequest{
		{Dst: 1, Label: 0, Packets: 3, TimeoutNs: 1e6}, {Dst: 1, Label: 1, Packets: 4, TimeoutNs: 2e6},
		{Dst: 0, Packets: 1, TimeoutNs: 1e6}, {Dst: 7, Packets: 1, TimeoutNs: 1e6}, {Dst: 1, Packets: 1e6, TimeoutNs: 1e6},
		{Dst: 1, Packets: 1, Label: 99, TimeoutNs: 1e6}, {Dst: 1, Packets: 1, TimeoutNs: -1}, {Dst: 1, Packets: 1, TimeoutNs: 1 << 62},
	} {
		p.Id = uint64(i)
		ask(p)
	}
	var probed hostproto.Probed // as who asks at the control socket receives it
	ranks[0].ProbePath(0, hostproto.Probe{Dst: 1, Label: 0, Packets: 3, Timeout: 1e6}, func(p hostproto.Probed) { probed = p })
	buf := make([]byte, ranks[0].MaxFrame())
	for now := fabric.Time(0); now < 12*fabric.Second; now += 10 * fabric.Microsecond {
		if now > 20*fabric.Millisecond {
			now += 100 * fabric.Millisecond
		}
		for i, r := range ranks {
			if at, ok := r.Wake(); ok && at <= now {
				r.Tick(now)
			}
			n, ok := r.Next(now, buf)
			if !ok {
				continue
			}
			if sent, err := frame.Parse(buf[:n]); err == nil && sent.SourcePort() == frame.SourcePort(1) {
				continue // the path is dead
			}
			ranks[1-i].Receive(now, bytes.Clone(buf[:n]))
		}
	}
	for id, want := range []*statepb.ProbeResult{{Sent: 3, TripNs: 10_000, LeastNs: 10_000}, {Sent: 4, Lost: 4}, {}, {}, {}, {}, {}, {Sent: 1, TripNs: 70_000, LeastNs: 70_000}} {
		want.Id = uint64(id)
		if diff := cmp.Diff(want, got[uint64(id)], protocmp.Transform()); diff != "" {
			t.Errorf("probe %d (-want +got):\n%s", id, diff)
		}
	}
	if probed.Sent != 3 || probed.Lost != 0 || probed.Least <= 0 || probed.Trip < probed.Least || probed.Trip > 1e6 {
		t.Errorf("asked at the control socket: %+v", probed)
	}
	if n := len(ranks[0].answers) + ranks[0].core.OpenProbes(); n != 0 {
		t.Errorf("%d left over", n)
	}
}

// TestHeartbeats: heartbeats keep a controller connected for the agent: what it does not confirm is not believed again
// at once, however long ago its last update was.
func TestHeartbeats(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{Fabric: f, Host: 0, Notify: func(hostproto.Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Configure(0, host.Settings{
		Seed: 1, ResendOnFlip: true, TailProbe: true, FailedMemory: 100 * fabric.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	r.Update(0, &statepb.Update{Instance: "a", Epoch: 1, Snapshot: true})
	if err := r.Post(0, []hostproto.Outbound{{ID: 1, Dst: 1, Bytes: 1 << 20}}); err != nil {
		t.Fatal(err)
	}
	r.Tick(fabric.Millisecond)
	now := fabric.Time(0)
	for ; now < 10*fabric.Second; now += fabric.Second {
		r.Update(now, &statepb.Update{Instance: "a", Epoch: 1, Heartbeat: true})
	}
	for epoch := range uint32(20) { // over 200 ms: the memory of the first, and the time for which others are refused
		r.Quench(now, frame.Quench{Switch: f.ToROf(0), Port: f.Node(f.ToROf(0)).FirstUplink(), Epoch: epoch + 1, Dst: f.HostAddr4(1)})
		now += 10 * fabric.Millisecond
	}
	if v := r.Stats().Verdicts; v[hostagent.Believed] != 1 || v[hostagent.Unconfirmed] == 0 {
		t.Errorf("verdicts %v, want one that is believed, and refused ones after 100 ms", v)
	}
}
