package daemon

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/controller/view/browsertest"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// TestLoads: what links carry is in the status by the switches' counters, with the uplink that carries more than its
// share.
func TestLoads(t *testing.T) {
	l := newLab(t, fatTree(t, 4), true)
	defer l.close()
	r := l.run(func(c *Config) { c.Loads = 20 * time.Millisecond })
	defer r.stop()
	r.untilReady()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			label := uint16(0) // by tor0's first uplink, but for every tenth packet
			if n%10 == 0 {
				label = 2
			}
			l.send(0, 15, 0xC000|label)
			time.Sleep(200 * time.Microsecond)
		}
	}()
	s := r.until("the loads tell the hot uplink", func(s Status) bool {
		for _, x := range s.Loads.Tiers {
			if x.Tier == "tor up" && x.Busiest == "tor0>agg0" && len(x.Hot) == 1 && x.Hot[0] == "tor0>agg0" && x.Imbalance > 1 {
				return true
			}
		}
		return false
	})
	// The aggregation switches above use one uplink of two, which is no less uneven.
	if !slices.ContainsFunc(s.Loads.Uneven, func(u observe.UnevenSwitch) bool {
		return u.Switch == "tor0" && u.Most == "tor0>agg0" && u.Least == "tor0>agg1"
	}) {
		t.Errorf("most uneven: %+v", s.Loads.Uneven)
	}
}

// TestView: a link that goes down is cut on the page of the live fabric, and whole again when it is back.
func TestView(t *testing.T) {
	b := browsertest.Open(t, time.Minute)
	l := newLab(t, fatTree(t, 4), true)
	defer l.close()
	r := l.run(func(c *Config) { c.Loads, c.View = 100*time.Millisecond, true })
	defer r.stop()
	r.untilReady()
	page := r.View()
	s := httptest.NewServer(page)
	defer func() { s.CloseClientConnections(); s.Close() }()
	changed := func(up bool, want string) browsertest.Action {
		return func(b *browsertest.Browser) error {
			began := time.Now()
			l.link("tor0-agg1", up)
			err := b.Run(browsertest.Poll(want, nil))
			t.Logf("up %v: on the page after %.0f ms", up, time.Since(began).Seconds()*1000)
			return err
		}
	}
	err := b.Run(
		browsertest.Navigate(s.URL+page.Path()),
		browsertest.Poll(`runs[0].ticks.length > 1`, nil),
		changed(false, `document.querySelectorAll(".fabric .use.cut").length === 2`),
		browsertest.Poll(`runs[0].events.some(e => e.k === "link" && e.d >= 0 && runs[0].dirName(e.d).includes("agg1"))`, nil),
		changed(true, `document.querySelectorAll(".fabric .use.cut").length === 0`),
		// What the chosen switch has stands there by names, and so does what it was sent, and what agents did.
		browsertest.Evaluate(`panels[0].choose({node: runs[0].byName.get("tor0")}); 0`, nil),
		browsertest.Poll(`document.querySelector(".switch").textContent.includes("take_uplink one of: to agg0 by port 3; to agg1 by port 4")`, nil),
		browsertest.Poll(`[...document.querySelectorAll(".events button")].some(b => /write tor0.*updates/.test(b.textContent))`, nil),
		browsertest.Action(func(*browsertest.Browser) error {
			r.inbox.post(func() {
				r.agentReported(3, &statepb.Report{Flips: []*statepb.Flip{{Qp: 7, From: 1, To: 2, Reason: "quench"}, {Reason: "<b>"}}, FlipsLeft: 5})
			})
			return nil
		}),
		browsertest.Poll(`runs[0].events.some(e => e.k === "flip" && runs[0].nodes[e.n].n === "h3" && e.c === 7 && e.x.includes("queue pair 7 from path 1 to 2: quench; ") && !e.x.includes("<b>"))`, nil),
		browsertest.Poll(`document.querySelector(".facts").textContent.includes("flips 7")`, nil),
		// The pairs of hosts that send most stand there, and one that is chosen stays so.
		browsertest.Action(func(*browsertest.Browser) error {
			r.inbox.post(func() {
				r.agentReported(3, &statepb.Report{Largest: []*statepb.Sent{{Dst: 12, Bytes: 41_000_000}}, SpanNs: 1e9})
			})
			return nil
		}),
		browsertest.Poll(`/pair h3 to h12, 41 MB.s/.test(document.querySelector(".flows").textContent)`, nil),
		browsertest.Evaluate(`document.querySelector(".flows button").click()`, nil),
		browsertest.Poll(`document.querySelector(".flows button[aria-pressed=true]") && document.querySelector(".chosen").textContent.includes("h3")`, nil),
		// A path's probe results are shown, and the path is drawn when it is chosen.
		browsertest.Action(func(*browsertest.Browser) error {
			path := suspicion.ProbedPath{SrcToR: r.f.ToRID(0), DstToR: r.f.ToRID(1), Label: 2}
			r.inbox.post(func() {
				r.paths.Store(path, time.Now(), &statepb.ProbeResult{Sent: 8, Lost: 3, TripNs: 41_000, LeastNs: 12_000})
			})
			return nil
		}),
		browsertest.Poll(`/tor0 to tor1, label 2: 3 of 8 packets lost, 41µs there and back, the least 12µs/.test(document.querySelector(".probed").textContent)`, nil),
		browsertest.Evaluate(`document.querySelector(".probed button").click()`, nil),
		browsertest.Poll(`document.querySelector(".chosen").textContent.includes("tor0 agg1 tor1") && document.querySelectorAll("line.pick").length === 2`, nil),
		browsertest.Navigate("about:blank"),
	)
	if err != nil {
		t.Fatal(err)
	}
	b.Check(t, s.URL)
}

// TestDirOf: directions are numbered as everywhere.
func TestDirOf(t *testing.T) {
	f := fatTree(t, 4)
	d := &Daemon{f: f}
	for id := range fabric.LinkID(f.Links()) {
		l := f.Link(id)
		if up, down := observe.SendDirection(d.f, l.A.Node, l.A.Port), observe.SendDirection(d.f, l.B.Node, l.B.Port); up != int(2*id) || down != int(2*id+1) {
			t.Errorf("%s: %d and %d", f.LinkName(id), up, down)
		}
	}
}
