package view_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/controller/view/browsertest"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// made returns a run of a fabric with a queue that grows at tor0's first uplink, a cut, and a flow by it.
func made(t testing.TB, spec fabric.Spec, ticks int) *view.Run {
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := &view.Run{Title: "made", End: float64(ticks), QueueUnit: 10}
	r.Nodes, r.Links = view.Graph(f)
	dirs := 2 * f.Links()
	uplink := 2 * f.Hosts()
	for k := range ticks {
		r.Ticks = append(r.Ticks, float64(k+1))
		for d := range dirs {
			r.Use = append(r.Use, byte((d*7+k*3)%251))
			queue := byte(0)
			if d == uplink && k == ticks/2 {
				queue = 200
			}
			r.Queue = append(r.Queue, byte((d+k)%50), queue)
		}
	}
	r.Marks = []int{ticks / 2, uplink, 12}
	r.Events = []view.Event{
		{T: 0.5, Kind: "write", Node: f.Hosts(), Dir: -1},
		{T: float64(ticks) * 0.7, Kind: "cut", Node: f.Hosts(), Dir: uplink},
	}
	last := f.Hosts() - 1
	tor, far := int(f.ToROf(0)), int(f.ToROf(fabric.NodeID(last)))
	r.Flows = []view.Flow{{Kind: "piece", Src: 0, Dst: last, End: float64(ticks), Bytes: 1 << 20, QP: 5,
		Path: []int{0, tor, f.Nodes() - 1, far, last}}}
	r.Phases = []view.Phase{{Node: 0, End: float64(ticks)}}
	r.Balance = []view.Balance{{Name: "tor up", Imbalance: make([]float64, ticks), Text: []string{"even"}}}
	return r
}

var small = fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 2, HostsPerToR: 4}

// TestPage uses the page as a person does: scrubbing, choosing a flow, a port and a switch, finding, by keys, and on a
// phone.
func TestPage(t *testing.T) {
	b := browsertest.Open(t, time.Minute)
	path := filepath.Join(t.ArtifactDir(), "view.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	other := made(t, small, 50)
	other.Title = strings.Repeat("a long title, ", 12)
	if err := view.HTML(file, &view.Page{Title: "two runs", Runs: []*view.Run{made(t, small, 100), other}}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	var title, at, ports, eventAt string
	var panels, opened, crossed, before, path5, diamonds, found, wider, byPort, byOther int
	err = b.Run(
		browsertest.Navigate("file://"+path),
		browsertest.Text("h1", &title),
		browsertest.Evaluate(`document.querySelectorAll(".panel").length`, &panels),
		browsertest.Evaluate(`document.querySelectorAll(".fabric .use.cut").length`, &opened),
		browsertest.Evaluate(`go(0); document.querySelectorAll(".panel:first-child .fabric .use.cut").length`, &before),
		browsertest.Evaluate(`el("scrub").value = 80; el("scrub").dispatchEvent(new Event("input")); document.querySelectorAll(".panel:first-child .fabric .use.cut").length`, &crossed),
		browsertest.Evaluate(`document.querySelector(".panel .flows button").click(); document.querySelectorAll(".panel:first-child .fabric .use.pick").length`, &path5),
		browsertest.Keys("q"), // the longest queue
		browsertest.Evaluate(`document.querySelectorAll(".panel:first-child .fabric .queue.marked").length`, &diamonds),
		browsertest.Text("#now", &at),
		browsertest.Evaluate(`panels[0].choose({dir: 1 * 2}); panels[0].flows.querySelectorAll("button").length`, &byOther),
		browsertest.Evaluate(`panels[0].choose({dir: 0}); panels[0].flows.querySelectorAll("button").length`,
			&byPort), // of h0, whose flow it is
		browsertest.Keys(browsertest.End), browsertest.Keys("p"), // the event before
		browsertest.Text("#now", &eventAt),
		browsertest.Type("#find", "tor1"),
		// The table is another one with each key.
		browsertest.Poll(`document.querySelectorAll(".node.pick").length == 2 && document.querySelector(".chosen table")?.innerText`, &ports),
		browsertest.Evaluate(`document.querySelectorAll(".node.pick").length`, &found),
		browsertest.Screen(400, 800, 2),
		browsertest.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &wider),
	)
	if err != nil {
		t.Fatal(err)
	}
	if title != "two runs" || panels != 2 {
		t.Errorf("%q, %d panels", title, panels)
	}
	if opened != 1 || before != 0 || crossed != 1 {
		t.Errorf("%d links of both runs are cut where the page opens, %d at 0 and %d later, want 1, 0 and 1", opened, before, crossed)
	}
	if path5 != 4 {
		t.Errorf("the flow's path is %d lines, want 4", path5)
	}
	if byPort != 1 || byOther != 0 {
		t.Errorf("%d flows by h0's port and %d by h1's, want 1 and 0", byPort, byOther)
	}
	if diamonds != 1 || at != "51.00 us" {
		t.Errorf("at the longest queue's time, %s, %d queues are marked; want 51.00 us and 1", at, diamonds)
	}
	if eventAt != "70.00 us" {
		t.Errorf("the event before the end is at %s, want 70.00 us", eventAt)
	}
	if found != 2 || ports == "" {
		t.Errorf("found tor1 %d times in two panels, with ports %q", found, ports)
	}
	if wider > 0 {
		t.Errorf("on a screen of 400 pixels the page is %d wider", wider)
	}
	b.Check(t, "file://"+path)
}

// TestLive: what happens to a live fabric is on the page within a second, and the page asks nobody but its server.
func TestLive(t *testing.T) {
	b := browsertest.Open(t, time.Minute)
	run := made(t, small, 1)
	run.Events, run.Flows, run.Marks, run.Balance = nil, nil, nil, nil
	live := viewhttp.NewLive(100)
	s := httptest.NewServer(viewhttp.NewServer(func() (*view.Page, error) {
		return &view.Page{Title: "live", Live: true, Runs: []*view.Run{run}}, nil
	}, live))
	defer func() { s.CloseClientConnections(); s.Close() }() // its events go on while the browser is there
	tick := func(n float64, events ...view.Event) {
		if err := live.Send(&view.Tick{T: n * 1e6, Use: run.Use, Queue: run.Queue, Events: events}); err != nil {
			t.Error(err)
		}
	}
	tick(1)
	var took float64
	err := b.Run(
		browsertest.Navigate(s.URL+liveServer(s).Path()),
		browsertest.Poll(`el("now").textContent === "1000.00 ms"`, nil),
		browsertest.Action(func(b *browsertest.Browser) error {
			began := time.Now()
			tick(2, view.Event{T: 2e6, Kind: "cut", Node: -1, Dir: 2 * 16})
			err := b.Run(browsertest.Poll(`document.querySelectorAll(".fabric .use.cut").length === 1`, nil))
			took = time.Since(began).Seconds()
			return err
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("a cut is on the page after %.0f ms", took*1000)
	b.Check(t, s.URL)
}

// liveServer returns the page's server behind a test's.
func liveServer(s *httptest.Server) *viewhttp.Server { return s.Config.Handler.(*viewhttp.Server) }

// TestEventsAlone: of a run without counters there is what happened, in step with the fabric, and no curve of nothing.
func TestEventsAlone(t *testing.T) {
	b := browsertest.Open(t, time.Minute)
	run := made(t, small, 1)
	link := 2 * 16 // tor0's first uplink
	run.Ticks, run.Use, run.Queue, run.Marks, run.Balance, run.Phases, run.Flows, run.End = nil, nil, nil, nil, nil, nil, nil, 100
	run.Events = []view.Event{
		{T: 10, Kind: "link", Node: -1, Dir: link, Text: "down"},
		{T: 20, Kind: "drain", Node: -1, Dir: link + 2, Text: "down"},
		{T: 30, Kind: "flip", Node: 1, Dir: -1, Text: "queue pair 1"}, {T: 60, Kind: "link", Node: -1, Dir: link, Text: "up"},
		{T: 70, Kind: "impair", Node: -1, Dir: link + 3, Text: "loses 1% of the packets downward only"},
		{T: 80, Kind: "undrain", Node: -1, Dir: link + 2, Text: "asked of the controller"},
	}
	path := filepath.Join(t.TempDir(), "view.html")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	run.Trace = "x.pftrace"
	if err := errors.Join(view.HTML(file, &view.Page{Title: "log", Runs: []*view.Run{run}}), file.Close()); err != nil {
		t.Fatal(err)
	}
	var counts [4]int
	var titles, hint, at string
	look := func(us, i int) browsertest.Action {
		return browsertest.Evaluate(fmt.Sprintf(`go(%d); 100 * document.querySelectorAll(".fabric .use.impaired").length + 10 * document.querySelectorAll(".fabric .use.cut").length + document.querySelectorAll(".fabric .use.drained").length`, us), &counts[i])
	}
	if err := b.Run(browsertest.Navigate("file://"+path), look(5, 0), look(15, 1), look(50, 2), look(99, 3),
		browsertest.Evaluate(`[...document.querySelectorAll("h3")].map(h => h.textContent).join()`, &titles),
		browsertest.Text(".facts + .facts", &hint),
		browsertest.Evaluate(`panels[0].choose({node: runs[0].byName.get("h1")}); 0`, nil),
		browsertest.Keys(browsertest.Home), browsertest.Keys("n"), browsertest.Keys("n"), browsertest.Keys("n"),
		browsertest.Text("#now", &at),
	); err != nil {
		t.Fatal(err)
	}
	if want := [4]int{0, 20, 22, 100}; counts != want { // two directions each, of one that loses packets one
		t.Errorf("links that lose packets, are cut and drained at 5, 15, 50 and 99 us: %v, want %v", counts, want)
	}
	if strings.Contains(titles, "Use of links") || strings.Contains(titles, "queue") ||
		!strings.Contains(titles, "Events") {
		t.Errorf("charts: %s", titles)
	}
	if !strings.Contains(hint, "ethereal view x.pftrace") {
		t.Errorf("of the trace it says %q", hint)
	}
	if at != "30.00 us" {
		t.Errorf("the third event is at %s", at)
	}
	b.Check(t, "file://"+path)
}

// TestPerfetto: at a click, and not before, the trace is handed to a window of Perfetto's, here a page that listens as
// its does.
func TestPerfetto(t *testing.T) {
	b := browsertest.Open(t, time.Minute)
	got := make(chan string, 8)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/got":
			got <- r.URL.Query().Get("is")
		case "/":
			fmt.Fprint(w, `<!doctype html><script>addEventListener("message", e => {
				if (e.data === "PING") e.source.postMessage("PONG", e.origin);
				else fetch("/got?is=" + encodeURIComponent(e.data.perfetto.fileName + " " + new TextDecoder().decode(e.data.perfetto.buffer)));
			});</script>`)
		}
	}))
	defer other.Close()
	run := made(t, small, 10)
	run.Trace = "made.pftrace"
	s := httptest.NewServer(viewhttp.NewServer(func() (*view.Page, error) {
		return &view.Page{Title: "traced", Runs: []*view.Run{run}}, nil
	}, nil).
		WithTraces(func(n int) (io.ReadSeekCloser, error) {
			if n != 0 {
				return nil, nil
			}
			return trace{strings.NewReader("bytes of a trace")}, nil
		}))
	defer s.Close()
	if err := b.Run(browsertest.Navigate(s.URL+liveServer(s).Path()),
		browsertest.Evaluate(fmt.Sprintf("perfetto = %q", other.URL), nil)); err != nil {
		t.Fatal(err)
	}
	select {
	case is := <-got:
		t.Fatalf("%q is handed over before anybody asked", is)
	default:
	}
	var said string
	if err := b.Run(browsertest.Click(".perfetto"),
		browsertest.Poll(`document.querySelector("[role=status]").textContent !== ""`, nil),
		browsertest.Text("[role=status]", &said)); err != nil {
		t.Fatal(err)
	}
	if said != " handed over" {
		t.Fatalf("the page says %q", said)
	}
	if is := <-got; is != "made.pftrace bytes of a trace" {
		t.Errorf("Perfetto gets %q", is)
	}
	b.Check(t, s.URL)
}

// trace is a trace's file.
type trace struct{ *strings.Reader }

func (trace) Close() error { return nil }

var measured = flag.Bool("view.measure", false, "measure as docs/view.md does: a large fabric, and the ticks of an "+
	"hour")

// TestFrames measures how long a step of the scrubber takes in a fabric of 128 hosts, and how many bytes the page has.
// Nothing is asserted: it is a measurement, for docs/view.md.
func TestFrames(t *testing.T) {
	specs := []fabric.Spec{{Kind: fabric.KindFatTree, K: 8}}
	if *measured {
		specs = append(specs, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 32, Spines: 16, HostsPerToR: 16})
	}
	for _, spec := range specs {
		b := browsertest.Open(t, time.Minute)
		path := filepath.Join(t.TempDir(), "view.html")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		run := made(t, spec, 300)
		if err := view.HTML(file, &view.Page{Title: "frames", Runs: []*view.Run{run}}); err != nil {
			t.Fatal(err)
		}
		size, err := file.Seek(0, 1)
		if err != nil || file.Close() != nil {
			t.Fatal(err)
		}
		hosts := 0
		for _, n := range run.Nodes {
			if n.Tier == 0 {
				hosts++
			}
		}
		var perSecond, script float64
		err = b.Run(browsertest.Navigate("file://"+path),
			browsertest.Evaluate(`(async () => {
				const frame = () => new Promise(done => requestAnimationFrame(done));
				await frame();
				let spent = 0, began = performance.now();
				for (let i = 0; i < 120; i++) { const at = performance.now(); step(1); spent += performance.now() - at; await frame(); }
				window.spent = spent / 120;
				return 120 / (performance.now() - began) * 1000;
			})()`, &perSecond),
			browsertest.Evaluate(`window.spent`, &script),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d hosts, %d links, %d ticks: %d bytes, %.0f frames a second, %.1f ms of script a frame", hosts,
			len(run.Links), len(run.Ticks), size, perSecond, script)
	}
}

// TestHour measures what memory the page of a live fabric of 128 hosts takes after many ticks. Nothing of it is
// asserted but that the page forgets the oldest.
func TestHour(t *testing.T) {
	total := 1500
	if *measured {
		total = 7200 // an hour's, two a second
	}
	b := browsertest.Open(t, 2*time.Minute)
	run := made(t, fabric.Spec{Kind: fabric.KindFatTree, K: 8}, 1)
	tick := view.Tick{Use: run.Use, Queue: run.Queue, State: make([]string, len(run.Links))}
	run.Events, run.Flows, run.Marks, run.Balance, run.Phases, run.Ticks, run.Use, run.Queue = nil, nil, nil, nil, nil, nil, nil, nil
	live := viewhttp.NewLive(1200)
	s := httptest.NewServer(viewhttp.NewServer(func() (*view.Page, error) {
		return &view.Page{Title: "live", Live: true, Runs: []*view.Run{run}}, nil
	}, live))
	defer func() { s.CloseClientConnections(); s.Close() }()
	var heap, last float64
	var ticks int
	hour := browsertest.Action(func(b *browsertest.Browser) error {
		const atOnce = 50 // more than that a browser may not be behind
		for n := 1; n <= total; n++ {
			tick.T, tick.Events = float64(n)*5e5, nil
			if n%20 == 0 {
				tick.Events = []view.Event{{T: tick.T, Kind: "write", Node: 200, Dir: -1}}
			}
			if err := live.Send(&tick); err != nil {
				return err
			}
			if n%atOnce == 0 {
				if err := b.Run(browsertest.Poll(fmt.Sprintf("runs[0].end >= %g", tick.T), nil)); err != nil {
					return fmt.Errorf("tick %d: %w", n, err)
				}
			}
		}
		return nil
	})
	memory := `performance.memory.usedJSHeapSize / 1e6`
	err := b.Run(browsertest.Navigate(s.URL+liveServer(s).Path()), browsertest.Evaluate(memory, &heap), hour,
		browsertest.Evaluate(memory, &last), browsertest.Evaluate(`runs[0].ticks.length`, &ticks))
	if err != nil {
		t.Fatal(err)
	}
	if ticks > 1200 {
		t.Errorf("%d ticks are kept", ticks)
	}
	t.Logf("%d links: %.0f MB of scripts' memory at first, %.0f MB after %d ticks, of which %d are kept", len(run.Links),
		heap, last, total, ticks)
	b.Check(t, s.URL)
}
