package recording

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/imbalance"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// Limits of one run on a page.
const (
	viewTicks  = 400
	viewCells  = 600_000 // maximum number of ticks times link directions that the page shows
	viewFlows  = 4000
	viewEvents = 4000
)

// idleUse is the mean use of a tier below which its evenness is not shown.
const idleUse = 0.05

// viewUse is a link's full capacity on the page.
const viewUse = 250

// View returns the page's data of the recording. Readings are merged to at most some hundred ticks; of many flows
// the longest are kept.
func (r *Recording) View() *view.Run {
	nodes, links := view.Graph(r.Fabric)
	v := &view.Run{Title: "run", Nodes: nodes, Links: links}
	if r.Result != nil {
		v.Title, v.End = r.Result.String(), r.Result.EndTime
		v.Facts = facts(r.Result)
	}
	if k := len(r.Readings); k > 0 {
		v.End = max(v.End, r.Readings[k-1].Micros())
	}
	for i := range r.Instants {
		v.End = max(v.End, r.Instants[i].At.Micros())
	}
	for i := range r.Slices {
		v.End = max(v.End, r.Slices[i].End.Micros())
	}
	r.viewCounters(v)
	r.viewEvents(v)
	r.viewFlows(v)
	return v
}

func facts(r *report.Result) [][2]string {
	f := [][2]string{{"end", string(r.End)}}
	if r.CCT != nil {
		f = append(f, [2]string{"CCT", fmt.Sprintf("%.1f us", *r.CCT)})
	}
	if ratio, ok := r.Slowdown(); ok {
		f = append(f, [2]string{"CCT/bound", fmt.Sprintf("%.3f", ratio)})
	}
	for _, n := range []struct {
		name  string
		count int64
	}{{"marked", r.Marked}, {"drops", r.Drops}, {"retransmissions", r.Retransmissions}, {"lost", r.LostToFailure}, {"time-outs", r.Timeouts}, {"flips", int64(r.Flips)}} {
		f = append(f, [2]string{n.name, fmt.Sprint(n.count)})
	}
	return f
}

// viewCounters merges readings to ticks.
func (r *Recording) viewCounters(v *view.Run) {
	dirs := 2 * r.Fabric.Links()
	readings := len(r.Readings)
	if readings == 0 || len(r.Links) == 0 {
		return
	}
	most := min(viewTicks, max(20, viewCells/dirs))
	each := (readings + most - 1) / most
	peak := int32(0)
	for i := range r.Links {
		peak = max(peak, r.Links[i].Peak)
	}
	v.QueueUnit = max(1, float64(peak)/65535)
	shape := imbalance.Of(r.Fabric)
	whole := make([]float64, dirs)
	series := make([][]float64, len(shape.Tiers()))
	start := max(0, r.Readings[0]-r.Every)
	for from := 0; from < readings; from += each {
		until := min(readings, from+each)
		end := r.Readings[until-1]
		v.Ticks = append(v.Ticks, end.Micros())
		use := make([]float64, dirs)
		for d := range sim.LinkDir(dirs) {
			longest, before := int32(0), start
			for k := from; k < until; k++ {
				l := r.Link(k, d)
				use[d] += float64(l.Use) * float64(r.Readings[k]-before)
				before = r.Readings[k]
				longest = max(longest, l.Peak)
			}
			whole[d] += use[d]
			v.Use = append(v.Use, byte(use[d]/float64(end-start)/useUnit*viewUse+0.5))
			v.Queue = binary.LittleEndian.AppendUint16(v.Queue, uint16(float64(longest)/v.QueueUnit))
		}
		report := shape.Report(use)
		for i := range report.Tiers {
			value := 0.0
			if t := &report.Tiers[i]; t.Mean >= idleUse*useUnit*float64(end-start) {
				value = float64(int(t.Imbalance()*1000+0.5)) / 1000
			}
			series[i] = append(series[i], value)
		}
		start = end
	}
	report := shape.Report(whole)
	for i, name := range shape.Tiers() {
		if name == "tor up" || name == "agg up" {
			v.Balance = append(v.Balance, view.Balance{Name: name, Imbalance: series[i], Text: report.Text(r.Fabric, i)})
		}
	}
}

// tickOf returns the tick of v at a time.
func tickOf(v *view.Run, at fabric.Time) int {
	i, _ := slices.BinarySearch(v.Ticks, at.Micros())
	return min(i, len(v.Ticks)-1)
}

func (r *Recording) viewEvents(v *view.Run) {
	type place struct {
		tick, dir int
	}
	marks := map[place]int{}
	for n := range r.Instants {
		i := &r.Instants[n]
		if i.Kind == Mark && len(v.Ticks) > 0 {
			marks[place{tickOf(v, i.At), int(i.Dir)}] += int(i.Count)
			continue
		}
		if len(v.Events) == viewEvents {
			v.Left++
			continue
		}
		e := view.Event{T: i.At.Micros(), Kind: string(i.Kind), Node: int(i.Node), Dir: int(i.Dir), QP: i.QP, Text: i.Text}
		if i.Count > 1 {
			e.Count = i.Count
		}
		v.Events = append(v.Events, e)
	}
	places := make([]place, 0, len(marks))
	for p := range marks {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.tick, b.tick), cmp.Compare(a.dir, b.dir)) })
	for _, p := range places {
		v.Marks = append(v.Marks, p.tick, p.dir, marks[p])
	}
}

func (r *Recording) viewFlows(v *view.Run) {
	var flows []*Slice
	for i := range r.Slices {
		switch s := &r.Slices[i]; s.Kind {
		case Phase:
			v.Phases = append(v.Phases, view.Phase{Node: int(s.Node), ID: s.ID & 0xFFFFFFFF, Begin: s.Begin.Micros(), End: s.End.Micros()})
		case Message, Piece, Probe:
			flows = append(flows, s)
		}
	}
	if len(flows) > viewFlows {
		slices.SortStableFunc(flows, func(a, b *Slice) int { return cmp.Compare(b.End-b.Begin, a.End-a.Begin) })
		v.Left += len(flows) - viewFlows
		flows = flows[:viewFlows]
		slices.SortStableFunc(flows, func(a, b *Slice) int { return cmp.Compare(a.Begin, b.Begin) })
	}
	for _, s := range flows {
		f := view.Flow{Kind: string(s.Kind), Src: int(s.Node), Dst: int(s.Dst), Begin: s.Begin.Micros(), End: s.End.Micros(), Bytes: s.Bytes}
		if s.Kind != Message {
			f.QP = s.ID
		}
		for _, n := range s.Path {
			f.Path = append(f.Path, int(n))
		}
		v.Flows = append(v.Flows, f)
	}
}

// FromResult returns the recording in a result alone: the use of links over the whole run, and the timeline.
func FromResult(result *report.Result) (*Recording, error) {
	f, err := fabric.New(result.Fabric)
	if err != nil {
		return nil, err
	}
	return New(f, Options{}).End(result), nil
}

// EndWithoutResult closes a recording without result: it ends with the last event.
func (r *Recorder) EndWithoutResult() *Recording {
	var end fabric.Time
	for i := range r.r.Instants {
		end = max(end, r.r.Instants[i].At)
	}
	for i := range r.r.Slices {
		end = max(end, r.r.Slices[i].Begin, r.r.Slices[i].End)
	}
	out := r.End(&report.Result{EndTime: end.Micros()})
	out.Result = nil
	return out
}

// fillResult adds the result's data of a run whose world did not report everything: the use of links over the whole
// run, and the timeline, unless its events were recorded as they happened.
func (r *Recorder) fillResult(result *report.Result) {
	if len(r.r.Instants) == 0 {
		for _, e := range result.Timeline {
			r.Happened(e)
		}
		for _, f := range result.FlipRecords {
			r.Happened(f.Event())
		}
	}
	if end := fabric.Time(result.EndTime * float64(fabric.Microsecond)); len(result.Links) == 2*r.f.Links() && end > 0 {
		r.r.Readings, r.r.Every = []fabric.Time{end}, end
		for _, l := range result.Links {
			r.r.Links = append(r.r.Links, LinkReading{Use: uint16(max(0, min(1, l.Share))*useUnit + 0.5)})
		}
	}
}
