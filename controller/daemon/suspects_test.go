package daemon

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

// TestSuspicion has agents report a black hole over gRPC: all are notified which link
// it is, those that are asked probe it, and all are notified when it works again.
func TestSuspicion(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		lis, srv := bufconn.Listen(1<<16), grpc.NewServer()
		staterpc.RegisterFabricStateServer(srv, r.Service())
		go srv.Serve(lis)
		conn, err := grpc.NewClient("passthrough:controller", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		dead, err := l.f.LinkByName("tor0-agg1")
		if err != nil {
			t.Fatal(err)
		}
		l.carry(dead, false) // and no one is notified
		ctx, cancel := context.WithCancel(context.Background())
		last := make([]*statepb.Suspect, l.f.Hosts()) // by host: what it received last
		probed := 0
		ended := make(chan struct{}, l.f.Hosts())
		var streams []grpc.BidiStreamingClient[statepb.AgentMessage, statepb.Update]
		for h := range l.f.Hosts() {
			s, err := staterpc.NewFabricStateClient(conn).Watch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(&statepb.AgentMessage{Message: &statepb.AgentMessage_Hello{Hello: &statepb.Hello{Host: uint32(h)}}}); err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
			go func() {
				defer func() { ended <- struct{}{} }()
				for {
					u, err := s.Recv()
					if err != nil {
						return
					}
					l.mu.Lock()
					for _, x := range u.GetSuspects() {
						last[h] = x
					}
					l.mu.Unlock()
					results := &statepb.Report{}
					for _, p := range u.GetProbes() {
						res := &statepb.ProbeResult{Id: p.GetId(), Sent: p.GetPackets(), TripNs: 9000, LeastNs: 7000}
						src, dst := l.f.ToROf(fabric.NodeID(h)), l.f.ToROf(fabric.NodeID(p.GetDst()))
						if l.f.PathUses(src, dst, fabric.Label(p.GetLabel()), dead) && !l.carries(dead) {
							res.Lost, res.TripNs, res.LeastNs = res.Sent, 0, 0
						}
						results.Probes = append(results.Probes, res)
						l.mu.Lock()
						probed++
						l.mu.Unlock()
					}
					if len(results.Probes) > 0 {
						s.Send(&statepb.AgentMessage{Message: &statepb.AgentMessage_Report{Report: results}})
					}
				}
			}()
		}
		synctest.Wait()
		// Two hosts of the rack time out towards several others.
		for h := range 2 {
			report := &statepb.Report{}
			for _, dst := range []uint32{5, 9, 14} {
				report.Suspicions = append(report.Suspicions, &statepb.Suspicion{
					DstTor: uint32(l.f.ToROf(fabric.NodeID(dst))), Dst: &dst, Label: uint32(l.f.LabelFor(1, h)), Timeouts: 1,
				})
			}
			report.Suspicions = append(report.Suspicions, &statepb.Suspicion{DstTor: 1 << 31, Label: 1 << 30}) // nonsense is passed over
			if err := streams[h].Send(&statepb.AgentMessage{Message: &statepb.AgentMessage_Report{Report: report}}); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(suspected, confirmed bool) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			l.mu.Lock()
			defer l.mu.Unlock()
			for h, s := range last {
				if s.GetLink() != uint32(dead) || s.GetSuspected() != suspected || s.GetConfirmed() != confirmed {
					t.Errorf("host %d received %v", h, s)
				}
			}
		}
		expect(true, true)
		if s := r.state(); len(s.NotUp) != 1 || !s.NotUp[0].Confirmed || !s.NotUp[0].Up {
			t.Errorf("status: %+v", s.NotUp)
		}
		l.checkPaths(t, r, dead)
		l.check(r) // tables do not follow
		l.carry(dead, true)
		expect(false, false)
		if probed == 0 || len(r.state().NotUp) > 0 {
			t.Errorf("%d probes; %+v", probed, r.state().NotUp)
		}
		if n := len(r.state().Paths); n == 0 {
			t.Error("paths that were probed are forgotten at once")
		}
		time.Sleep(observe.PathsKept + time.Second)
		if p := r.state().Paths; len(p) > 0 {
			t.Errorf("paths are kept: %+v", p)
		}
		cancel()
		for range l.f.Hosts() {
			<-ended
		}
		conn.Close()
		srv.Stop()
		r.Service().Wait()
		r.stop()
	})
}

// checkPaths looks at what the status says of probed paths: those over the dead link lose all, the others nothing.
func (l *lab) checkPaths(t *testing.T, r *running, dead fabric.LinkID) {
	t.Helper()
	over := 0
	for _, p := range r.state().Paths {
		src, err := l.f.NodeByName(p.From)
		dst, err2 := l.f.NodeByName(p.To)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if p.Via[0] != p.From || p.Via[len(p.Via)-1] != p.To || len(p.Via) < 3 {
			t.Errorf("%+v does not go there", p)
		}
		lost, trip := uint64(0), 9*time.Microsecond
		if l.f.PathUses(src, dst, fabric.Label(p.Label), dead) {
			lost, trip = p.Sent, 0
			over++
		}
		if p.Sent == 0 || p.Lost != lost || p.Trip != trip || p.Least > p.Trip {
			t.Errorf("%+v", p)
		}
	}
	if over == 0 {
		t.Error("no path over the dead link")
	}
}
