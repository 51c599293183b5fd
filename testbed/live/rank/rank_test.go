package rank

import (
	"bytes"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/collective"
	"github.com/ethereal-fabric/ethereal/testbed/live/control"
)

// TestJob plays a collective on ranks whose frames are handed over in virtual
// time, losing every thirtieth: all messages arrive once, with the checksums they
// were posted with.
func TestJob(t *testing.T) {
	for _, send := range []bool{false, true} {
		f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
		if err != nil {
			t.Fatal(err)
		}
		ranks := make([]*Rank, f.Hosts())
		posted, received, done := map[uint64]uint32{}, map[uint64]uint32{}, 0
		for i := range ranks {
			r, err := New(Config{Fabric: f, Host: fabric.NodeID(i), Origin: 1000, Tell: func(e control.Event) {
				switch e.Kind {
				case control.Posted:
					posted[e.ID] = e.CRC
				case control.Received:
					if _, twice := received[e.ID]; twice {
						t.Errorf("message %v arrived twice", collective.ID(e.ID))
					}
					received[e.ID] = e.CRC
				case control.Done:
					done++
				case control.Fault:
					t.Errorf("host %d: %s", i, e.Text)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Configure(0, control.Settings{Seed: 1, Nonce: 7, Send: send, RTO: 1e6}); err != nil {
				t.Fatal(err)
			}
			if err := r.Start(0); err == nil {
				t.Error("a job was started that nobody prepared")
			}
			spec := collective.Spec{Kind: collective.AllReduce, Algorithm: collective.RecursiveDoubling, Ranks: f.Hosts(), Bytes: 20_000}
			if err := r.Prepare(control.Job{Spec: spec, Key: 9}); err != nil {
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
			t.Fatalf("send %v: %d of %d ranks done, %d messages posted, %d received", send, done, len(ranks), len(posted), len(received))
		}
		for id, crc := range posted {
			if received[id] != crc {
				t.Errorf("message %v: posted with %#x, received with %#x", collective.ID(id), crc, received[id])
			}
		}
	}
}
