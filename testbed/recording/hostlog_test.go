package recording

import (
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

const hostLog1 = `{"new":{"Host":0,"Seed":1,"Scheme":"ethereal","BatchWindow":"100ns"}}
{"at":"10us","call":"post","message":7,"dst":4,"bytes":8192}
{"at":"10.1us","call":"tick"}
{"do":"open","qp":1,"message":7,"dst":4,"bytes":4096,"label":1,"start":"10.1us"}
{"do":"open","qp":2,"message":7,"dst":4,"offset":4096,"bytes":4096,"start":"10.1us"}
{"at":"20us","call":"quench","quench":{"Dst":"10.1.0.2","Switch":16,"Port":3,"Epoch":1,"DstQP":2,"PSN":4,"Labelled":true}}
{"do":"relabel","qp":2,"label":2}
{"do":"flipped","flip":{"QP":2,"From":0,"To":2,"Reason":"quench","Dead":true}}
{"at":"30us","call":"update","update":{"instance":"x","epoch":3,"heartbeat":true}}
{"at":"31us","call":"timeout","qp":1}
{"at":"40us","call":"done","qp":1}
{"at":"41us","call":"done","qp":2}
{"do":"sent","message":7}
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
	const begin = `{"new":{"Host":0}}` + "\n"
	for _, bad := range []string{
		"", `{"at":"10us","call":"tick"}`, `{"new":{"Host":99}}`, begin + `{"at":"soon","call":"tick"}`, begin + `{"at":"1us"}`,
		begin + `{"do":"open","qp":1,"dst":16,"start":"1us"}`, begin + `{"do":"open","qp":1,"dst":1,"start":"never"}`,
		begin + `{"at":"1us","call":"quench","quench":{"Switch":99}}`, begin + `{"at":"1us","call":"tick","often":true}`,
	} {
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
