package soft

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// TestSessions: whatever datagrams are lost, late or repeated, and whichever process begins anew while they are on the
// way, a message that is sent after that arrives. Where none begins anew, no message fails.
func TestSessions(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		p := &pair{t: t}
		qp := transport.QP(0)
		start := func(i int) {
			c := Config{
				NIC:    transport.Config{Fabric: f, Host: fabric.NodeID(i), MTU: 1000, Control: transport.NoControl},
				Random: rng.Uint64,
			}
			p.log[i] = log{}
			var err error
			if p.e[i], err = New(c, &p.log[i]); err != nil {
				rt.Fatal(err)
			}
			if err := p.e[i].Register(7, make([]byte, 1<<20)); err != nil {
				rt.Fatal(err)
			}
		}
		start(0)
		start(1)
		send := func(from int) {
			qp++
			data := make([]byte, 1+rng.IntN(20_000))
			if err := p.e[from].Write(p.now, Message{QP: qp, ID: uint64(qp), Dst: fabric.NodeID(1 - from), Data: data, Key: 7}); err != nil {
				rt.Fatal(err)
			}
		}
		// A tenth of all frames is lost, another late, another comes twice.
		type flight struct {
			to    int
			at    fabric.Time
			frame []byte
		}
		var wire []flight
		run := func(d fabric.Time, loss bool) {
			buf := make([]byte, p.e[0].MaxFrame())
			for until := p.now + d; p.now < until; p.now += 5 * fabric.Microsecond {
				for i, e := range p.e {
					s, ok := e.Next(p.now, buf)
					if !ok {
						continue
					}
					x := flight{1 - i, p.now + 10*fabric.Microsecond, bytes.Clone(buf[:s.Len])}
					if loss {
						switch rng.IntN(10) {
						case 0:
							continue
						case 1:
							x.at += fabric.Time(rng.IntN(2000)) * fabric.Microsecond
						case 2:
							wire = append(wire, flight{x.to, x.at + fabric.Time(rng.IntN(2000))*fabric.Microsecond, bytes.Clone(x.frame)})
						}
					}
					wire = append(wire, x)
				}
				kept := wire[:0]
				for _, x := range wire {
					if x.at > p.now {
						kept = append(kept, x)
						continue
					}
					p.e[x.to].Receive(p.now, x.frame)
				}
				wire = kept
			}
		}
		restarts := rapid.IntRange(0, 4).Draw(rt, "restarts")
		for range restarts {
			send(0)
			send(1)
			run(fabric.Time(rng.IntN(3000))*fabric.Microsecond, true)
			start(rng.IntN(2))
		}
		run(3*fabric.Millisecond, true) // what is late has arrived
		for i := range p.log {
			p.log[i] = log{}
			send(i)
		}
		arrived := func() bool {
			return len(p.log[0].done)*len(p.log[1].done)*len(p.log[0].written)*len(p.log[1].written) > 0
		}
		for until := p.now + 3*fabric.Second; p.now < until && !arrived(); {
			run(10*fabric.Millisecond, true)
		}
		for i := range p.log {
			if len(p.log[i].done) == 0 || len(p.log[1-i].written) == 0 {
				rt.Fatalf("after %d restarts, host %d: done %v, the other's messages %v", restarts, i, p.log[i].done, p.log[1-i].written)
			}
			if restarts == 0 && len(p.log[i].failed) > 0 {
				rt.Fatalf("host %d: failed %v, though no process began anew", i, p.log[i].failed)
			}
		}
	})
}
