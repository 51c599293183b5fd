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
	"github.com/ethereal-fabric/ethereal/hostagent/rocev2"
	"github.com/ethereal-fabric/ethereal/testbed/live"
	"github.com/ethereal-fabric/ethereal/testbed/port"
)

// plantTraffic sends RoCEv2 packets between hosts over all labels that no
// controller calls dead, and counts what arrives.
type plantTraffic struct {
	f     *fabric.Fabric
	hosts []fabric.NodeID
	ports []*port.Interface
	sent  atomic.Int64
	got   atomic.Int64
	pause atomic.Bool

	mu    sync.Mutex
	links map[uint32]*statepb.LinkState
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
				if x.Receive(64, func(frame []byte) { tr.receive(h, frame) }) == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	w, err := daemon.NewWatcher(daemon.WatchConfig{
		Host: hosts[0], Controllers: controllers, Silence: 3 * time.Second,
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
				if !tr.pause.Load() {
					tr.round(p.t, n)
				}
			}
		}
	})
	return tr
}

// plantQP marks the test's packets.
const plantQP = 0xE7E7E7

func (tr *plantTraffic) receive(h fabric.NodeID, frame []byte) {
	f, err := rocev2.Parse(frame)
	if err == nil && f.BTH().DestQP() == plantQP && f.Destination() == tr.f.HostAddr4(h) && f.VerifyICRC() == nil {
		tr.got.Add(1)
	}
}

// round sends a packet between every two hosts.
func (tr *plantTraffic) round(t *testing.T, n int) {
	for i, src := range tr.hosts {
		for _, dst := range tr.hosts {
			a, b := tr.f.ToROf(src), tr.f.ToROf(dst)
			if a == b {
				continue
			}
			ls := tr.good(a, b)
			s := rocev2.Stack{
				SrcMAC: tr.f.MAC(src), DstMAC: tr.f.MAC(a), Src: tr.f.HostAddr4(src), Dst: tr.f.HostAddr4(dst), TTL: 64,
				SourcePort: 0xC000 | uint16(ls[n%len(ls)]), BTH: rocev2.BTHFields{Opcode: rocev2.SendOnly, DestQP: plantQP, PSN: uint32(n) & 0xFFFFFF},
				PayloadLen: 64,
			}
			frame := make([]byte, s.FrameLen())
			if _, err := s.Encode(frame); err != nil {
				t.Error(err)
				return
			}
			parsed, err := rocev2.Parse(frame)
			if err != nil {
				t.Error(err)
				return
			}
			parsed.SetICRC()
			if tr.ports[i].Send([][]byte{frame}) == 1 {
				tr.sent.Add(1)
			}
		}
	}
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
// many packets were sent and how many of them lost since the last call.
func (tr *plantTraffic) lost() (sent, lost int64) {
	tr.pause.Store(true)
	defer tr.pause.Store(false)
	// On a busy machine a packet takes its time; the last has been lost when none
	// has come for long.
	const patience = 10 * time.Second
	time.Sleep(100 * time.Millisecond) // a round may be under way
	last, since := tr.got.Load(), time.Now()
	for tr.got.Load() < tr.sent.Load() && time.Since(since) < patience {
		time.Sleep(20 * time.Millisecond)
		if got := tr.got.Load(); got != last {
			last, since = got, time.Now()
		}
	}
	sent = tr.sent.Swap(0)
	return sent, sent - tr.got.Swap(0)
}
