package suspicion

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
)

// TestScenarios runs the text files of testdata, on a leaf-spine of three ToRs with two
// hosts each and two spines. Every command takes at=TIME, by the core's clock, which is
// the time of the command before otherwise. Commands:
//
//	new [no-probes]
//	report HOST TOR UPLINK TIMEOUTS   the path from the host's ToR; 0 time-outs: it works
//	answer LOST                       of the 16 packets of each probe asked for
//	link LINK up|down                 it is known to be
//	tick
//	rebase                            the core's clock shows 0 from now on
func TestScenarios(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Scenarios(t, "testdata", func() func(*datadriven.TestData) (string, error) {
		return (&scenario{f: f}).run
	})
}

type scenario struct {
	c    *Core
	f    *fabric.Fabric
	now  fabric.Time
	open []Probe
}

func (s *scenario) run(d *datadriven.TestData) (string, error) {
	words, err := goldentest.Words(d, &s.now)
	if err != nil {
		return "", err
	}
	args := strings.Join(words, " ")
	switch d.Cmd {
	case "new":
		s.now, s.open = 0, nil
		cfg := Config{Fabric: s.f}
		switch args {
		case "":
		case "two trials":
			cfg.Trials = 2
		default:
			cfg.NoProbes = true
		}
		s.c, err = New(cfg)
		return "", err
	case "report":
		var host, tor, uplink, timeouts int
		if _, err := fmt.Sscan(args, &host, &tor, &uplink, &timeouts); err != nil {
			return "", err
		}
		if err := s.c.Report(s.now, Report{
			Host: fabric.NodeID(host), DstToR: s.f.ToRID(tor), Dst: NoHost, Label: s.f.LabelFor(uplink, 0), Timeouts: timeouts,
		}); err != nil {
			return "", err
		}
	case "answer":
		var lost int
		if _, err := fmt.Sscan(args, &lost); err != nil {
			return "", err
		}
		open := s.open
		s.open = nil
		for _, p := range open {
			s.c.ProbeResult(s.now, p.Host, p.ID, p.Packets, lost)
		}
	case "link":
		id, err := s.f.LinkByName(words[0])
		if err != nil {
			return "", err
		}
		s.c.LinkState(s.now, id, words[1] == "up")
	case "tick":
		s.c.Tick(s.now)
	case "rebase":
		s.c.Rebase(s.now)
		s.now = 0
	default:
		return "", fmt.Errorf("unknown command %s", d.Cmd)
	}
	var b strings.Builder
	r := s.c.Ready()
	for _, x := range r.Suspicions {
		fmt.Fprintf(&b, "%s: suspected=%v confirmed=%v epoch %d\n", s.f.LinkName(x.Link), x.Suspected, x.Confirmed, x.Epoch)
	}
	s.open = append(s.open, r.Probes...)
	for _, p := range r.Probes {
		fmt.Fprintf(&b, "probe %s: h%d to h%d by uplink %d\n", s.f.LinkName(p.Link), p.Host, p.Dst, p.Label)
	}
	if at, ok := s.c.Deadline(); ok {
		fmt.Fprintf(&b, "due %v\n", at)
	}
	if b.Len() == 0 {
		return "nothing\n", nil
	}
	return b.String(), nil
}
