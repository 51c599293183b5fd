package neighbour

import (
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/lldp"
)

func TestAnswer(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	const host = 3 // the second host of tor1
	a := New(f, host)
	token := lldp.Token{7}
	ask := func(from fabric.End) []byte {
		b, err := lldp.Append(nil, f, from, token)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	now := time.Unix(1, 0)
	planned := fabric.End{Node: f.ToRID(1), Port: 2}
	reply, from, ok := a.Answer(now, ask(planned))
	if !ok || from != planned || !a.Planned(from) {
		t.Fatalf("from %+v, %v", from, ok)
	}
	w, err := lldp.Parse(reply)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := w.Sender(f); !ok || got != (fabric.End{Node: host, Port: 1}) || w.Token != token {
		t.Errorf("the answer is %+v's, token %v", got, w.Token)
	}
	if _, _, ok := a.Answer(now.Add(minAnswerGap/2), ask(planned)); ok {
		t.Error("answered again at once")
	}
	_, from, ok = a.Answer(now.Add(minAnswerGap), ask(fabric.End{Node: f.ToRID(0), Port: 1}))
	if !ok || a.Planned(from) {
		t.Errorf("asked by tor0: %+v, %v, planned %v", from, ok, a.Planned(from))
	}
	if _, _, ok := a.Answer(now.Add(time.Second), ask(planned)[:30]); ok {
		t.Error("a cut frame is answered")
	}
}
