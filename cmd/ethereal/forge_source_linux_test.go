package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestForeignSources: a host's frames with another host's source address go no further than its ToR, which counts them.
// They are requests, acknowledgements and NAKs, of either IP version, in the name of the victim to its peer and back.
// Messages of all, the forger's own too, arrive.
func TestForeignSources(t *testing.T) { foreignSources(t, live.Interpreter) }

// TestForeignSourcesKernel is TestForeignSources through the kernel's data path.
func TestForeignSourcesKernel(t *testing.T) { foreignSources(t, live.Kernel) }

func foreignSources(t *testing.T, datapath string) {
	f, b, _ := newBenchOn(t, datapath, forgeSpec, forgeRate, 4096, live.Notifiers{Quench: true})
	if b == nil {
		return
	}
	reach, err := b.Fabric.ReachableFabric()
	if err != nil {
		t.Fatal(err)
	}
	const foreign = 6 // of counter drops
	counted := func(tor fabric.NodeID) int64 {
		c, err := reach.Switch(tor).Counters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c[p4rt.CounterDrops][foreign].Packets
	}
	forgeConfigure(t, b.Session, 100*fabric.Millisecond)
	for _, at := range []fabric.NodeID{1, 9} { // of the victim's rack, and of the peer's
		tor := f.ToROf(at)
		before := counted(tor)
		sent, err := sendForeign(f, b.Fabric, at)
		if err != nil {
			t.Fatal(err)
		}
		succeeds(t, time.Minute, fmt.Sprintf("%s counts %d frames", f.Name(tor), sent), func() error {
			if got := counted(tor) - before; got != int64(sent) {
				return fmt.Errorf("%d", got)
			}
			return nil
		})
		for _, pair := range [][2]int{{forgeVictim, forgePeer}, {forgePeer, forgeVictim}, {int(at), forgePeer}} {
			if v := transfer(t, b.Session, pair[0], pair[1], 1e5); v.Timeouts != 0 {
				t.Errorf("h%d to h%d: %d time-outs", pair[0], pair[1], v.Timeouts)
			}
		}
		if got := counted(tor) - before; got != int64(sent) {
			t.Errorf("%s counts %d frames after honest traffic, want %d", f.Name(tor), got, sent)
		}
	}
}

// sendForeign has a host send frames in the name of the victim and of its peer, and returns how many.
func sendForeign(f *fabric.Fabric, x *live.Fabric, at fabric.NodeID) (sent int, err error) {
	var p *port.Interface
	err = x.In(at, func() (err error) {
		p, err = port.OpenInterface(live.HostInterface, port.InterfaceOptions{SendBuffer: 1 << 20})
		return err
	})
	if err != nil {
		return 0, err
	}
	defer p.Close() //nolint:errcheck // nothing is left to send
	for i := range 50 {
		for _, op := range []frame.Opcode{frame.WriteOnly, frame.Acknowledge} {
			for _, pair := range [][2]fabric.NodeID{{forgeVictim, forgePeer}, {forgePeer, forgeVictim}} {
				for _, v6 := range []bool{false, true} {
					s := frame.Stack{
						SrcMAC: f.MAC(at), DstMAC: f.MAC(f.ToROf(at)), Src: f.HostAddr4(pair[0]), Dst: f.HostAddr4(pair[1]), TTL: 64,
						SourcePort: frame.SourcePort(0), BTH: frame.BTHFields{Opcode: op, PKey: 0xffff, DestQP: uint32(2 + i), PSN: uint32(i)},
					}
					if v6 {
						s.Src, s.Dst = f.HostAddr6(pair[0]), f.HostAddr6(pair[1])
					}
					frame := make([]byte, s.FrameLen())
					if _, err := s.Encode(frame); err != nil {
						return sent, err
					}
					p.Send([][]byte{frame})
					sent++
				}
			}
		}
	}
	return sent, nil
}
