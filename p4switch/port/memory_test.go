package port_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

func newPoller(t *testing.T) *port.Poller {
	t.Helper()
	p, err := port.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// wait returns the events of one turn.
func wait(t *testing.T, p *port.Poller, timeout time.Duration) []port.Event {
	t.Helper()
	ev, err := p.Wait(timeout, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func collect(p port.Port, limit int) (got []string) {
	p.Receive(limit, func(b []byte) { got = append(got, string(b)) })
	return got
}

func TestMemory(t *testing.T) {
	a, b := porttest.Pair(2)
	pa, pb := newPoller(t), newPoller(t)
	if n := b.Send([][]byte{[]byte("early")}); n != 1 {
		t.Fatal(n)
	}
	if err := pa.Add(a, 4); err != nil {
		t.Fatal(err)
	}
	if err := pb.Add(b, 5); err != nil {
		t.Fatal(err)
	}
	// What was there before the port was added is reported.
	if diff := cmp.Diff([]port.Event{{ID: 4, In: true}}, wait(t, pa, -1)); diff != "" {
		t.Error(diff)
	}
	// A full direction takes the rest when there is room again, and says so.
	frames := [][]byte{[]byte("1"), []byte("2"), []byte("3")}
	if n := b.Send(frames); n != 1 {
		t.Errorf("%d frames taken", n)
	}
	if diff := cmp.Diff([]string{"early", "1"}, collect(a, 10)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]port.Event{{ID: 5, Out: true}}, wait(t, pb, -1)); diff != "" {
		t.Error(diff)
	}
	if n := b.Send(frames[1:]); n != 2 {
		t.Errorf("%d frames taken", n)
	}
	if diff := cmp.Diff([]port.Event{{ID: 4, In: true}}, wait(t, pa, -1)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"2"}, collect(a, 1)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"3"}, collect(a, 1)); diff != "" {
		t.Error(diff)
	}
	if ev := wait(t, pa, 0); len(ev) != 0 {
		t.Errorf("%+v", ev)
	}
	want := port.Counters{InPkts: 4, InOctets: 8}
	if diff := cmp.Diff(want, a.Counters()); diff != "" {
		t.Error(diff)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if n := b.Send(frames); n != 3 || b.Counters().OutDown != 3 {
		t.Errorf("%d taken by a closed port; %+v", n, b.Counters())
	}
}

func TestWake(t *testing.T) {
	p := newPoller(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Wake()
		p.Wake()
	}()
	if ev := wait(t, p, -1); len(ev) != 0 {
		t.Errorf("%+v", ev)
	}
	<-done
	start := time.Now()
	wait(t, p, 0) // the second, if it came later
	wait(t, p, 2*time.Millisecond)
	if d := time.Since(start); d > time.Second {
		t.Errorf("a wait of 2 ms took %v", d)
	}
}

// What passes a capture can be read back as a port's input.
func TestCaptureAndFiles(t *testing.T) {
	dir := t.TempDir()
	a, b := porttest.Pair(10)
	captured, err := port.Capture(a, dir, "s1")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	dumped := port.Dump(captured, func(sent bool, frame []byte) {
		if sent {
			shown = append(shown, "sent "+string(frame))
		} else {
			shown = append(shown, "received "+string(frame))
		}
	})
	dumped.Send([][]byte{[]byte("out 1"), bytes.Repeat([]byte("x"), 9000)})
	b.Send([][]byte{[]byte("in 1"), []byte("in 2")})
	if diff := cmp.Diff([]string{"in 1", "in 2"}, collect(dumped, 10)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"sent out 1", "sent " + string(bytes.Repeat([]byte("x"), 9000)), "received in 1", "received in 2"}, shown); diff != "" {
		t.Error(diff)
	}
	if err := dumped.Close(); err != nil {
		t.Error(err)
	}
	if err := dumped.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}

	files, err := port.OpenFiles(dir, "s1")
	if err != nil {
		t.Fatal(err)
	}
	p := newPoller(t)
	if err := p.Add(files, 9); err != nil {
		t.Fatal(err)
	}
	if got := collect(files, 10); len(got) > 0 {
		t.Errorf("%q before Start", got)
	}
	files.Start()
	if diff := cmp.Diff([]port.Event{{ID: 9, In: true}}, wait(t, p, -1)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"in 1", "in 2"}, collect(files, 10)); diff != "" {
		t.Error(diff)
	}
	files.Send([][]byte{[]byte("answer")})
	if c := files.Counters(); c.InPkts != 2 || c.OutPkts != 1 || c.OutOctets != 6 {
		t.Errorf("%+v", c)
	}
	if err := files.Close(); err != nil {
		t.Error(err)
	}
}
