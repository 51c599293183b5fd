package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// matrixMap shows a large fabric as matrices: per tier of uplinks and direction, with one row per uplink and one
// column per switch. Cells of one colour are one path, which keeps the page small.
func matrixMap(r *Result, f *fabric.Fabric, most float64) heatMap {
	const width, left = 520.0, 62.0
	m := heatMap{W: width}
	load := make(map[[2]string]LinkLoad, len(r.Links))
	for _, l := range r.Links {
		load[[2]string{l.From, l.To}] = l
	}
	paths := map[string]*strings.Builder{}
	y := 14.0
	for _, t := range []struct {
		name  string
		first fabric.NodeID
		n     int
	}{{"ToR", f.ToRID(0), f.ToRs()}, {"agg", f.AggID(0), f.Aggs()}} {
		if t.n == 0 {
			continue
		}
		uplinks := f.Node(t.first).Uplinks()
		cw := (width - left) / float64(t.n)
		ch := min(max(96/float64(uplinks), 2), 12)
		for _, up := range []bool{true, false} {
			direction := "up"
			if !up {
				direction = "down"
			}
			m.Labels = append(m.Labels, heatText{X: 0, Y: y + ch*float64(uplinks)/2 + 3, Text: t.name + " " + direction, Anchor: "start"})
			for s := range t.n {
				n := f.Node(t.first + fabric.NodeID(s))
				for u := range uplinks {
					id := n.Link(n.FirstUplink() + fabric.PortNo(u))
					link := f.Link(id)
					from, to := f.Name(n.ID), f.Name(link.Peer(n.ID).Node)
					if !up {
						from, to = to, from
					}
					l := load[[2]string{from, to}]
					class := heatClass(busyTime(l, link.Rate), most)
					if paths[class] == nil {
						paths[class] = new(strings.Builder)
					}
					x, top := left+cw*float64(s), y+ch*float64(u)
					fmt.Fprintf(paths[class], "M%.2f %.2fh%.2fv%.2fh%.2fz", x, top, cw*0.94, ch*0.92, -cw*0.94)
					if l.Cut {
						m.Dead = append(m.Dead, deadLinkSymbol(r, l.Link, x+cw/2, top+ch/2))
					}
				}
			}
			y += ch*float64(uplinks) + 8
		}
		y += 8
	}
	m.H = y
	for i := range heatSteps {
		class := fmt.Sprintf("h%d", i)
		if p := paths[class]; p != nil {
			m.Cells = append(m.Cells, heatCells{class, p.String()})
		}
	}
	sortTexts(m.Labels)
	return m
}

func sortTexts(ts []heatText) {
	slices.SortFunc(ts, func(a, b heatText) int { return cmp.Compare(a.Y, b.Y) })
}
