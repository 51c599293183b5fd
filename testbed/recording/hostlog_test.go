package recording

import (
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const hostLog1 = `new host=h0 scheme=ethereal seed=1 window=100ns
10us post message=0x7 dst=h4 bytes=8192
10.1us tick
  open qp=1 message=0x7 dst=h4 at=0 bytes=4096 label=1 start=10.1us
  open qp=2 message=0x7 dst=h4 at=4096 bytes=4096 label=0 start=10.1us
20us quench from=10.1.0.2 switch=tor0 port=3 epoch=1 label=0 qpn=2 psn=4 labelled
  relabel qp=2 label=2
  flipped qp=2 from=0 to=2 reason=quench dead
30us update instance=x epoch=3 heartbeat
31us timeout qp=1
40us done qp=1
41us done qp=2
  sent message=0x7
`

// TestReadHostLog: a host's log has its message, its pieces where they went in the end, and what it answered.
func TestReadHostLog(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	r, name, err := ReadHostLog(strings.NewReader(hostLog1), f)
	if err != nil || name != "h0" {
		t.Fatalf("%q, %v", name, err)
	}
	v := r.View()
	var paths []string
	for _, s := range r.Slices {
		if s.Kind == Piece {
			paths = append(paths, PathText(f, s.Path))
		}
	}
	if len(paths) != 2 || paths[0] != "h0 tor0 agg0 core1 agg2 tor2 h4" || paths[1] != "h0 tor0 agg1 core2 agg3 tor2 h4" {
		t.Errorf("pieces go by %q", paths)
	}
	if len(v.Flows) != 3 || len(v.Phases) != 1 || v.End != 41 {
		t.Errorf("%d flows, %d phases, end %g; want 3, 1 and 41", len(v.Flows), len(v.Phases), v.End)
	}
	var kinds []string
	for _, e := range v.Events {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); got != "quench flip timeout" {
		t.Errorf("events %s", got)
	}
	for _, bad := range []string{"", "10us tick\n", "new host=h99\n", "new host=h0\nsoon tick\n", "new host=h0\n1us tick\n  open qp=1 dst=tor0 start=1us\n", "new host=h0\n1us tick\n  open qp=1 dst=h1 start=never\n"} {
		if _, _, err := ReadHostLog(strings.NewReader(bad), f); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// FuzzHostLog: no log ends the program.
func FuzzHostLog(t *testing.F) {
	t.Add(hostLog1)
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Fuzz(func(t *testing.T, text string) {
		if r, _, err := ReadHostLog(strings.NewReader(text), f); err == nil {
			r.View()
		}
	})
}
