package host

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/balance"
)

// quiet is a shell that does nothing: what it is told is in the log.
type quiet struct{}

func (quiet) Alarm(fabric.Time)                           {}
func (quiet) Wake(fabric.Time)                            {}
func (quiet) Flipped(fabric.Time, hostagent.Flip)         {}
func (quiet) Sent(fabric.Time, uint64)                    {}
func (quiet) PathsFailed(fabric.Time, []hostagent.Failed) {}
func (quiet) Probed(fabric.Time, ProbeResult)             {}
func (quiet) Fault(fabric.Time, error)                    {}

// unheard is the handler of an endpoint that sends nothing.
type unheard struct{ endpoint.Handler }

// play plays the calls of an event log to cores on endpoints that send nothing, and
// returns the log with its effects.
func play(f *fabric.Fabric, log string) (string, error) {
	var out bytes.Buffer
	var c *Core
	for line := range strings.Lines(log) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" || IsEffect(line):
		case IsConfig(line):
			cfg, err := ParseConfig(f, line)
			if err != nil {
				return "", err
			}
			cfg.Log = NewLog(&out, f)
			if c, err = New(cfg); err != nil {
				return "", err
			}
			ec := endpoint.Config{Fabric: f, Host: cfg.Host}
			if c.PerPacket() {
				ec.Balancer = c
			}
			e, err := endpoint.New(ec, unheard{})
			if err != nil {
				return "", err
			}
			c.Attach(e, quiet{})
		default:
			_, call, err := ParseInput(f, line)
			if err != nil {
				return "", err
			}
			if c == nil {
				return "", errors.New("a call before new")
			}
			call(c)
		}
	}
	return out.String(), nil
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

// FuzzLog: no event log makes the reader or the core panic, and one that was played
// has the same effects again.
func FuzzLog(f *testing.F) {
	net := k4(f)
	for _, scheme := range balance.Names() {
		f.Add("new host=h0 scheme=" + scheme + " seed=1 window=100ns resend\n1us post message=7 dst=h9 bytes=100000\n2us tick\n" +
			"3us label qp=1\n4us echo qp=1 label=3 rtt=90us marked\n4us received\n5us acked qp=1 bytes=9000\n6us timeout qp=1\n" +
			"7us quench from=10.0.0.9 switch=tor0 port=3 epoch=1\n7us quench from=0.0.0.0 switch=agg0 port=1 epoch=1 notice\n8us update instance=a epoch=1 snapshot link=tor0-agg0:down:1 link=4:suspected:1\n" +
			"9us probe id=1 dst=h9 label=1 packets=2 timeout=1ms\n9us lost qp=1 packets=2\n9us congested peer=h9 label=1\n9us leave\n" +
			"10us return\n10us done qp=1\n11us refuse qp=2\n2ms tick\n")
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
