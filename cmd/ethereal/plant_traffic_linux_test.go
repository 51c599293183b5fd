package main

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// plantTraffic sends RoCEv2 packets between hosts over all labels that no
// controller calls dead, and counts what arrives.
type plantTraffic struct {
	f     *fabric.Fabric
	hosts []fabric.NodeID
	ports []*port.Interface
	sent  atomic.Int64
	got   atomic.Int64
	flush atomic.Uint32 // packets of the present flush that arrived

	sending sync.Mutex // held while a round or a flush is sent

	mu    sync.Mutex
	links map[uint32]*statepb.LinkState
	wave  uint32 // number of the present flush
}

// traffic begins to send between hosts, one packet a pair each interval.
func (p *plant) traffic(every time.Duration, controllers []string, hosts ...fabric.NodeID) *plantTraffic {
	p.t.Helper()
	tr := &plantTraffic{f: p.f, hosts: hosts, links: map[uint32]*statepb.LinkState{}}
	ctx, cancel := context.WithCancel(context.Background())
	var g sync.WaitGroup
	p.t.Cleanup(func() {
		cancel()
		g.Wait()
		for _, x := range tr.ports {
			x.Close()
		}
	})
	for _, h := range hosts {
		x, err := port.OpenInterface(live.InterfaceName(p.f, fabric.End{Node: h, Port: 1}), port.InterfaceOptions{})
		if err != nil {
			p.t.Skipf("no packet sockets: %v", err)
		}
		tr.ports = append(tr.ports, x)
		g.Go(func() {
			for ctx.Err() == nil {
				if x.Receive(64, func(raw []byte) { tr.receive(h, raw) }) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	w, err := daemon.NewWatcher(daemon.WatchConfig{
		Host: hosts[0], Links: p.f.Links(), Controllers: controllers, Silence: 3 * time.Second,
		Dial: func(addr string) (*grpc.ClientConn, error) {
			return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		},
		Apply: func(u *statepb.Update) {
			tr.mu.Lock()
			defer tr.mu.Unlock()
			notify.Apply(tr.links, u)
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	g.Go(func() { w.Run(ctx) })
	g.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				tr.sending.Lock()
				tr.round(p.t, n)
				tr.sending.Unlock()
			}
		}
	})
	return tr
}

// Queue pairs that mark the test's packets: those that are counted, and those of
// a flush.
const (
	plantQP = 0xE7E7E7
	flushQP = 0xE7E7E8
)

func (tr *plantTraffic) receive(h fabric.NodeID, raw []byte) {
	f, err := frame.Parse(raw)
	if err != nil || f.Destination() != tr.f.HostAddr4(h) || f.VerifyICRC() != nil {
		return
	}
	switch f.BTH().DestQP() {
	case plantQP:
		tr.got.Add(1)
	case flushQP:
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if f.BTH().PSN() == tr.wave {
			tr.flush.Add(1)
		}
	}
}

// send sends a packet from one of the hosts, by number, to another one.
func (tr *plantTraffic) send(t *testing.T, i int, dst fabric.NodeID, label fabric.Label, qp, psn uint32) bool {
	src := tr.hosts[i]
	s := frame.Stack{
		SrcMAC: tr.f.MAC(src), DstMAC: tr.f.MAC(tr.f.ToROf(src)), Src: tr.f.HostAddr4(src), Dst: tr.f.HostAddr4(dst), TTL: 64,
		SourcePort: 0xC000 | uint16(label), BTH: frame.BTHFields{Opcode: frame.SendOnly, DestQP: qp, PSN: psn & 0xFFFFFF},
		PayloadLen: 64,
	}
	raw := make([]byte, s.FrameLen())
	if _, err := s.Encode(raw); err != nil {
		t.Error(err)
		return false
	}
	parsed, err := frame.Parse(raw)
	if err != nil {
		t.Error(err)
		return false
	}
	parsed.SetICRC()
	return tr.ports[i].Send([][]byte{raw}) == 1
}

// pairs calls do for every two hosts at different ToRs.
func (tr *plantTraffic) pairs(do func(i int, dst, srcToR, dstToR fabric.NodeID)) {
	for i, src := range tr.hosts {
		for _, dst := range tr.hosts {
			if a, b := tr.f.ToROf(src), tr.f.ToROf(dst); a != b {
				do(i, dst, a, b)
			}
		}
	}
}

// round sends a packet between every two hosts.
func (tr *plantTraffic) round(t *testing.T, n int) {
	tr.pairs(func(i int, dst, a, b fabric.NodeID) {
		ls := tr.good(a, b)
		if tr.send(t, i, dst, ls[n%len(ls)], plantQP, uint32(n)) {
			tr.sent.Add(1)
		}
	})
}

// flushed sends packets over all paths that work until they arrive, and reports
// whether they did in time. Queues keep their order: what was sent before over
// these paths and has not arrived is lost.
func (tr *plantTraffic) flushed(t *testing.T, patience time.Duration) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		tr.mu.Lock()
		tr.wave++
		tr.flush.Store(0)
		wave := tr.wave
		tr.mu.Unlock()
		want := uint32(0)
		tr.pairs(func(i int, dst, a, b fabric.NodeID) {
			for _, l := range tr.good(a, b) {
				tr.send(t, i, dst, l, flushQP, wave)
				want++
			}
		})
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
			if tr.flush.Load() == want {
				return true
			}
		}
	}
	return false
}

// good returns the labels whose path no controller calls dead; all if none is left.
func (tr *plantTraffic) good(a, b fabric.NodeID) []fabric.Label {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	all := tr.f.PathLabels(a, b)
	var good []fabric.Label
	var hops [4]fabric.Hop
	for _, l := range all {
		ok := true
		path, _ := tr.f.Path(hops[:0], a, b, l)
		for _, h := range path {
			if s := tr.links[uint32(h.Link)]; s != nil && !s.GetUp() {
				ok = false
			}
		}
		if ok {
			good = append(good, l)
		}
	}
	if len(good) == 0 {
		return all
	}
	return good
}

// lost stops the traffic until all that is under way has arrived, and returns how
// many packets were sent and how many of them lost since the last call. The fabric
// must have settled.
func (tr *plantTraffic) lost(t *testing.T) (sent, lost int64) {
	t.Helper()
	tr.sending.Lock()
	defer tr.sending.Unlock()
	// Twice: a packet may have been between two switches' queues when the first
	// flush overtook it on another path.
	for range 2 {
		if tr.got.Load() < tr.sent.Load() && !tr.flushed(t, 20*time.Second) {
			t.Error("not all paths carry packets")
		}
	}
	sent = tr.sent.Swap(0)
	return sent, sent - tr.got.Swap(0)
}
