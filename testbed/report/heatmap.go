package report

import (
	"fmt"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// heatPanel is the link-load pictures of one collective, with one colour scale.
type heatPanel struct {
	Title  string
	Max    string // value of the last colour
	Half   string
	Over   bool // larger values may exist: runs that did not finish
	Maps   []heatMap
	Steps  []int
	Matrix bool // drawn as matrices: the fabric is large
}

// heatMap is the loads of one run.
type heatMap struct {
	Title, Sub string
	Caption    string
	W, H       float64
	Links      []heatLink
	Nodes      []heatNode
	Labels     []heatText
	Cells      []heatCells
	Dead       []heatDead
}

type heatLink struct {
	Class          string
	X1, Y1, X2, Y2 float64
	Title          string
}

type heatNode struct {
	Class      string
	X, Y, W, H float64
	Title      string
}

type heatText struct {
	X, Y   float64
	Text   string
	Anchor string
}

type heatCells struct{ Class, Path string }

// heatDead is the symbol on a cut link.
type heatDead struct {
	X, Y     float64
	Repaired bool // before the run ended
	Title    string
}

// deadLinkSymbol returns the symbol of a cut link.
func deadLinkSymbol(r *Result, link string, x, y float64) heatDead {
	d := heatDead{X: x, Y: y, Title: link + " was cut"}
	for _, e := range r.Timeline {
		if e.Where == link && (e.Kind == KindCut || e.Kind == KindRestore) {
			d.Repaired = e.Kind == KindRestore
		}
	}
	if d.Repaired {
		d.Title += " and repaired"
	}
	return d
}

// heatSteps is the number of colours.
const heatSteps = 8

// Sizes above which a fabric is shown as matrices.
const (
	maxDrawnHosts = 64
	maxDrawnLinks = 160
)

// busyTime returns the time that a direction needs for its bytes at line rate, in microseconds. Unlike bytes it is
// comparable between tiers of different rates, and with the completion time.
func busyTime(l LinkLoad, rate fabric.Rate) float64 {
	if rate <= 0 {
		return 0
	}
	return float64(l.DataBytes+l.ControlBytes) * 8e6 / float64(rate)
}

// heatPanels returns one panel per collective: a map of the first seed for each failure case, notifier and scheme.
// Results without links, or with a fabric that cannot be built, are left out.
func heatPanels(rs []*Result) []heatPanel {
	var out []heatPanel
	for _, op := range distinctValues(rs, (*Result).operation) {
		var shown []*Result
		var fabrics []*fabric.Fabric
		// An unfinished run retransmits until its deadline, and would make all others look idle: the scale is that
		// of finished runs.
		var most, mostOfAll float64
		for _, s := range sections(rs) {
			if s.operation != op {
				continue
			}
			for _, w := range s.rows {
				r := w.results[0]
				f, err := fabric.New(r.Fabric)
				if err != nil || len(r.Links) == 0 {
					continue
				}
				shown, fabrics = append(shown, r), append(fabrics, f)
				for _, l := range r.Links {
					if id, err := f.LinkByName(l.Link); err == nil {
						b := busyTime(l, f.Link(id).Rate)
						mostOfAll = max(mostOfAll, b)
						if r.CCT != nil {
							most = max(most, b)
						}
					}
				}
			}
		}
		if len(shown) == 0 {
			continue
		}
		if most == 0 {
			most = mostOfAll
		}
		p := heatPanel{Title: op, Max: fourDigits(most), Half: fourDigits(most / 2), Over: mostOfAll > most}
		for i := range heatSteps {
			p.Steps = append(p.Steps, i)
		}
		for i, r := range shown {
			f := fabrics[i]
			var m heatMap
			if f.Hosts() > maxDrawnHosts || f.Links()-f.HostLinks() > maxDrawnLinks {
				p.Matrix = true
				m = matrixMap(r, f, most)
			} else {
				m = closMap(r, f, most)
			}
			m.Title, m.Sub = r.Scheme, r.Failure
			if r.Notifier != "none" {
				m.Sub += ", " + r.Notifier
			}
			m.Caption = fmt.Sprintf("ToR uplinks: max %s MB, mean %s MB", megabytes(float64(r.UplinkBytesMax)), megabytes(r.UplinkBytesMean))
			if r.UplinkBytesMean > 0 {
				m.Caption += " (" + multipleText(float64(r.UplinkBytesMax)/r.UplinkBytesMean) + ")"
			}
			p.Maps = append(p.Maps, m)
		}
		out = append(out, p)
	}
	return out
}

func heatClass(v, most float64) string {
	if most <= 0 {
		return "h0"
	}
	return fmt.Sprintf("h%d", min(int(v/most*heatSteps), heatSteps-1))
}

func loadTitle(l LinkLoad, rate fabric.Rate) string {
	return fmt.Sprintf("%s → %s: %s MB data, %s MB control; %s µs at line rate; %.0f %% of its capacity used",
		l.From, l.To, megabytes(float64(l.DataBytes)), megabytes(float64(l.ControlBytes)), fourDigits(busyTime(l, rate)), l.Share*100)
}

// closMap draws the fabric, tier over tier, with both directions of each link
// side by side.
func closMap(r *Result, f *fabric.Fabric, most float64) heatMap {
	const width, left, right, apart = 520.0, 30.0, 6.0, 1.9
	m := heatMap{W: width, H: 248}
	y := map[fabric.Tier]float64{fabric.Host: 226, fabric.ToR: 170, fabric.Aggregation: 96, fabric.Core: 22}
	if !f.ThreeTier() {
		m.H, y[fabric.Host], y[fabric.ToR] = 178, 156, 100
	}
	x := make([]float64, f.Nodes())
	spread := func(first fabric.NodeID, n int) {
		for i := range n {
			x[int(first)+i] = left + (width-left-right)*(float64(i)+0.5)/float64(n)
		}
	}
	spread(0, f.Hosts())
	spread(f.ToRID(0), f.ToRs())
	if f.Aggs() > 0 {
		spread(f.AggID(0), f.Aggs())
	}
	spread(f.CoreID(0), f.Cores())

	for _, l := range r.Links {
		from, err := f.NodeByName(l.From)
		to, err2 := f.NodeByName(l.To)
		id, err3 := f.LinkByName(l.Link)
		if err != nil || err2 != nil || err3 != nil {
			continue
		}
		x1, y1, x2, y2 := x[from], y[f.Node(from).Tier], x[to], y[f.Node(to).Tier]
		// Each direction to its own right-hand side.
		length := math.Hypot(x2-x1, y2-y1)
		dx, dy := -(y2-y1)/length*apart, (x2-x1)/length*apart
		rate := f.Link(id).Rate
		m.Links = append(m.Links, heatLink{
			Class: heatClass(busyTime(l, rate), most),
			X1:    x1 + dx, Y1: y1 + dy, X2: x2 + dx, Y2: y2 + dy, Title: loadTitle(l, rate),
		})
		if l.Cut && f.Link(id).A.Node == from {
			m.Dead = append(m.Dead, deadLinkSymbol(r, l.Link, (x1+x2)/2, (y1+y2)/2))
		}
	}
	for i := range f.Nodes() {
		n := f.Node(fabric.NodeID(i))
		w, h := 22.0, 12.0
		if n.Tier == fabric.Host {
			w, h = 9, 9
		}
		w = min(w, width/float64(f.Hosts())*0.75)
		name := f.Name(n.ID)
		m.Nodes = append(m.Nodes, heatNode{
			Class: n.Tier.String(), X: x[i] - w/2, Y: y[n.Tier] - h/2, W: w, H: h, Title: name,
		})
	}
	top := "core"
	if !f.ThreeTier() {
		top = "spine"
	}
	for t, text := range map[fabric.Tier]string{fabric.Host: "host", fabric.ToR: "ToR", fabric.Aggregation: "agg", fabric.Core: top} {
		if t == fabric.Aggregation && !f.ThreeTier() {
			continue
		}
		m.Labels = append(m.Labels, heatText{X: 1, Y: y[t] + 3, Text: text, Anchor: "start"})
	}
	sortTexts(m.Labels)
	return m
}
