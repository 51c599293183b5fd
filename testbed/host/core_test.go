package host

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
)

// quiet is a shell that does nothing: its calls are in the log.
type quiet struct{}

func (quiet) Alarm(fabric.Time)                           {}
func (quiet) Wake(fabric.Time)                            {}
func (quiet) Flipped(fabric.Time, hostagent.Flip)         {}
func (quiet) Sent(fabric.Time, uint64)                    {}
func (quiet) PathsFailed(fabric.Time, []hostagent.Failed) {}
func (quiet) Probed(fabric.Time, ProbeResult)             {}
func (quiet) Fault(fabric.Time, error)                    {}

// unheard is the handler of an endpoint that sends nothing.
type unheard struct{ transport.Handler }

// play plays the calls of an event log to cores on endpoints that send nothing, and
// returns the log with its effects.
func play(f *fabric.Fabric, log string) (string, error) {
	var out bytes.Buffer
	var c *Core
	err := ReadLog(strings.NewReader(log), f, func(r Record) (err error) {
		switch {
		case r.New != nil:
			cfg := r.New.Config
			cfg.Log = NewLog(&out)
			if c, err = New(cfg); err != nil {
				return err
			}
			ec := transport.Config{Fabric: f, Host: cfg.Host, ProbeOnFlip: true}
			if c.PerPacket() {
				ec.Balancer = c
			}
			e, err := transport.New(ec, unheard{})
			if err != nil {
				return err
			}
			c.Attach(e, quiet{})
		case r.Call != "":
			return r.Play(c)
		}
		return nil
	})
	return out.String(), err
}

func k4(t testing.TB) *fabric.Fabric {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestGolden plays the calls of testdata's event logs on a fat tree of k = 4, and
// compares the logs with their effects. Run with -rewrite to write what they are now.
// What a log says, played again, has the same effects.
func TestGolden(t *testing.T) {
	f := k4(t)
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			log, err := play(f, d.Input)
			if err != nil {
				return err.Error() + "\n"
			}
			if again, err := play(f, log); again != log {
				t.Errorf("%s: played again, %v:\n%s", d.Pos, err, again)
			}
			return log
		})
	})
}

// calls are one of each kind.
const calls = `
{"at":"1us","call":"post","message":7,"bytes":100000,"dst":9}
{"at":"2us","call":"tick"}
{"at":"3us","call":"label","qp":1}
{"at":"4us","call":"echo","qp":1,"echo":{"Label":3,"RTT":"90us","Marked":true}}
{"at":"4us","call":"received"}
{"at":"5us","call":"acked","qp":1,"bytes":9000}
{"at":"6us","call":"timeout","qp":1}
{"at":"7us","call":"quench","quench":{"Dst":"10.0.0.9","Switch":16,"Port":3,"Epoch":1}}
{"at":"7us","call":"quench","quench":{"Dst":"0.0.0.0","Switch":24,"Port":1,"Epoch":1,"Notice":true}}
{"at":"8us","call":"update","update":{"instance":"a","epoch":1,"snapshot":true,"links":[{"link":16,"epoch":1}],"suspects":[{"link":4,"suspected":true,"epoch":1}]}}
{"at":"9us","call":"probe","probe":{"ID":1,"Dst":9,"Label":1,"Packets":2,"Timeout":"1ms"}}
{"at":"9us","call":"lost","qp":1,"lost":{"Packets":2}}
{"at":"9us","call":"congested","label":1,"dst":9}
{"at":"9us","call":"leave"}
{"at":"10us","call":"return"}
{"at":"10us","call":"done","qp":1}
{"at":"11us","call":"refuse","qp":2}
{"at":"2ms","call":"tick"}
`

// FuzzLog: no event log makes the reader or the core panic, and one that was played
// has the same effects again.
func FuzzLog(f *testing.F) {
	net := k4(f)
	for _, scheme := range balance.Names() {
		seed := `{"new":{"Host":0,"Seed":1,"Scheme":"` + scheme + `","BatchWindow":"100ns","ResendOnFlip":true}}` + calls
		if _, err := play(net, seed); err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		log, err := play(net, text)
		if err != nil {
			return
		}
		if again, err := play(net, log); err != nil || again != log {
			t.Fatalf("%v\n%s\nplayed again:\n%s", err, log, again)
		}
	})
}

// finished is an endpoint whose queue pairs are all acknowledged, which the core does not know yet.
type finished struct{ Endpoint }

func (finished) Open(fabric.Time, transport.Message) error     { return nil }
func (finished) Resend(transport.QP) error                     { return transport.ErrUnknown }
func (finished) Relabel(transport.QP, fabric.Label) error      { return transport.ErrUnknown }
func (finished) Ask(fabric.NodeID, fabric.Label, uint32) error { return nil }

// faults counts the faults that are reported to a shell.
type faults struct {
	quiet
	flips int
	errs  []error
}

func (f *faults) Flipped(fabric.Time, hostagent.Flip) { f.flips++ }
func (f *faults) Fault(_ fabric.Time, err error)      { f.errs = append(f.errs, err) }

// TestFlipOfFinished: an endpoint reports the last acknowledged bytes of a queue pair before its end, and the agent may
// want to move the queue pair then. That is no fault, and no flip.
func TestFlipOfFinished(t *testing.T) {
	f := k4(t)
	for _, resend := range []bool{true, false} {
		cfg := Config{Scheme: balance.Ethereal, ResendOnFlip: resend}
		cfg.Fabric, cfg.Seed, cfg.MTU, cfg.Packet = f, 1, 4096, 4096
		c, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var shell faults
		c.Attach(finished{}, &shell)
		c.Post(0, hostagent.Flow{ID: 1, Dst: 15, Bytes: 1 << 20})
		c.Tick(fabric.Microsecond)
		flips := 0
		for qp := range c.logic.qps {
			c.logic.flip(2*fabric.Microsecond, hostagent.Flip{QP: hostagent.QP(qp), To: 1, Dead: true})
			flips++
		}
		if flips == 0 || shell.flips != 0 || len(shell.errs) != 0 {
			t.Errorf("of %d queue pairs, %d flipped; faults %v", flips, shell.flips, shell.errs)
		}
	}
}
