package daemon

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

const headerBytes = 14 + 20 + 8 + 12

// roce writes the header of an IPv4 RoCEv2 packet of 4096 B payload with a UDP
// source port.
func roce(f *fabric.Fabric, src, dst fabric.NodeID, sport uint16) []byte {
	b := make([]byte, headerBytes)
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, 17
	binary.BigEndian.PutUint16(ip[2:], headerBytes-14+4096+4)
	s, d := f.HostAddr4(src).As4(), f.HostAddr4(dst).As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
	binary.BigEndian.PutUint16(ip[20:], sport)
	binary.BigEndian.PutUint16(ip[22:], 4791)
	binary.BigEndian.PutUint16(ip[24:], headerBytes-34+4096+4)
	ip[28] = 0x0a // RDMA WRITE only
	return b
}

// Fates of packets.
const (
	arrived  = "delivered"
	deadLink = "sent into a dead link"
	dropped  = "dropped"
	answered = "dropped and answered"
)

// send takes a packet through the data planes, hop by hop, and says what became
// of it.
func (l *lab) send(src, dst fabric.NodeID, sport uint16) string {
	data := roce(l.f, src, dst, sport)
	link := l.f.Node(src).Link(1)
	at := l.f.Link(link).Peer(src)
	quenched := false
	for range 10 {
		if l.f.Node(at.Node).Tier == fabric.Host {
			if at.Node != dst {
				return "delivered to " + l.f.Name(at.Node)
			}
			return arrived
		}
		s := l.switches[l.f.Name(at.Node)]
		var next []byte
		port := fabric.PortNo(0)
		s.mu.Lock()
		if sw := s.core.Switch(); sw != nil {
			sw.Process(interp.Input{Port: uint32(at.Port), Data: data, Length: headerBytes + 4100, Now: time.Now().UnixNano()}, func(o interp.Output) {
				if len(o.Data) > 38 && binary.BigEndian.Uint16(o.Data[36:]) == p4src.QuenchUDPPort {
					quenched = true
					return
				}
				port, next = fabric.PortNo(o.Port), append([]byte(nil), o.Data...)
			})
		}
		s.mu.Unlock()
		switch {
		case port == 0 && quenched:
			return answered
		case port == 0:
			return dropped + " by " + l.f.Name(at.Node)
		}
		id, ok := l.f.LinkAt(at.Node, port)
		if !ok || !l.carries(id) {
			return deadLink
		}
		at, data = l.f.Link(id).Peer(at.Node), next
	}
	return "loops"
}

// traffic sends packets between random hosts, with labels and without, until it
// is stopped, and counts what became of them.
type traffic struct {
	stopped chan struct{}
	done    sync.WaitGroup
	fates   map[string]int
}

// traffic starts sending bursts, a millisecond apart. usable, if not nil, says
// which labels hosts use, as agents would.
func (l *lab) traffic(seed uint64, usable func(src, dst fabric.NodeID, label fabric.Label) bool) *traffic {
	tr := &traffic{stopped: make(chan struct{}), fates: map[string]int{}}
	rng := rand.New(rand.NewPCG(seed, 1))
	tr.done.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tr.stopped:
				return
			case <-tick.C:
			}
			for range 20 {
				src, dst := fabric.NodeID(rng.IntN(l.f.Hosts())), fabric.NodeID(rng.IntN(l.f.Hosts()))
				s, d := l.f.ToROf(src), l.f.ToROf(dst)
				if s == d {
					continue
				}
				sport := uint16(0xF000 | rng.IntN(0x0FFF)) // no label of a small fabric
				if labels := l.f.PathLabels(s, d); rng.IntN(4) > 0 {
					label := labels[rng.IntN(len(labels))]
					if usable != nil && !usable(s, d, label) {
						continue
					}
					sport = 0xC000 | uint16(label)
				}
				tr.fates[l.send(src, dst, sport)]++
			}
		}
	})
	return tr
}

// stop ends the traffic and returns how many packets arrived, and the rest by
// fate.
func (tr *traffic) stop() (ok int, lost map[string]int) {
	close(tr.stopped)
	tr.done.Wait()
	ok = tr.fates[arrived]
	delete(tr.fates, arrived)
	return ok, tr.fates
}

// TestRestartUnderTraffic kills the controller and starts another one while
// packets fly, with links down.
func TestRestartUnderTraffic(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.link("tor0-agg0", false)
		l.link("agg3-core2", false)
		r := l.run(nil)
		waitIdle(r)
		l.wrote()
		alive := func(s, d fabric.NodeID, label fabric.Label) bool {
			hops, _ := l.f.Path(nil, s, d, label)
			for _, h := range hops {
				if !l.carries(h.Link) {
					return false
				}
			}
			return true
		}
		tr := l.traffic(1, alive)
		time.Sleep(100 * time.Millisecond)
		r.stop()
		time.Sleep(100 * time.Millisecond)
		r = l.run(nil)
		r.untilReady()
		time.Sleep(100 * time.Millisecond)
		ok, lost := tr.stop()
		if n, pushes := l.wrote(); n != 0 || pushes != 0 || len(lost) != 0 || ok < 1000 {
			t.Errorf("%d updates, %d pipelines, %d packets arrived, lost %v", n, pushes, ok, lost)
		}
		t.Logf("%d packets arrived, none lost, no entry written", ok)
		r.stop()
	})
}

// TestChangeUnderTraffic drains links and switches, and takes them back, while
// packets fly: none is lost. Then a link fails, and all that is lost is counted.
func TestChangeUnderTraffic(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(nil)
		waitIdle(r)
		// Hosts that have not received yet go on using all labels.
		tr := l.traffic(2, nil)
		for _, name := range []string{"agg0", "core3", "tor5-agg4", "tor6-agg6"} {
			if _, err := r.Drain(context.Background(), name, false, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		for _, name := range []string{"core3", "agg0", "tor6-agg6", "tor5-agg4"} {
			if _, err := r.Drain(context.Background(), name, true, false); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		ok, lost := tr.stop()
		if len(lost) != 0 || ok < 1000 {
			t.Errorf("drains: %d packets arrived, lost %v", ok, lost)
		}
		t.Logf("drains: %d packets arrived, none lost", ok)
		synctest.Wait()
		l.check(r)

		tr = l.traffic(3, nil)
		for id := l.f.Hosts(); id < l.f.Links(); id += 3 {
			l.link(l.f.LinkName(fabric.LinkID(id)), false)
			time.Sleep(20 * time.Millisecond)
			l.link(l.f.LinkName(fabric.LinkID(id)), true)
			time.Sleep(20 * time.Millisecond)
		}
		ok, lost = tr.stop()
		// What is on a link when it fails is lost, whatever the tables say.
		quenched, inFlight := lost[answered], lost[deadLink]
		delete(lost, answered)
		delete(lost, deadLink)
		if len(lost) != 0 {
			t.Errorf("failures: lost %v", lost)
		}
		if inFlight > 50 {
			t.Errorf("failures: %d packets were sent into dead links", inFlight)
		}
		t.Logf("failures: %d packets arrived, %d dropped and answered, %d lost on the links", ok, quenched, inFlight)
		waitIdle(r)
		l.check(r)
		r.stop()
	})
}
