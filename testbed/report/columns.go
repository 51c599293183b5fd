package report

import (
	"fmt"
	"strconv"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// tableColumn is one column of the table, in a terminal and on the page.
type tableColumn struct {
	head, unit string
	help       string // its meaning, for the page
	left       bool   // aligned left
	cell       func(r *Result) string
}

// missingText is shown for an absent value.
const missingText = "-"

// timeUnit is the unit of a table's times.
type timeUnit struct {
	name   string
	micros float64
}

// microseconds is the unit of results, and of the page.
var microseconds = timeUnit{"us", 1}

// unitOf returns the suitable unit for the largest time of results.
func unitOf(rs []*Result) timeUnit {
	largest := 0.0
	for _, r := range rs {
		for _, v := range []*float64{r.CCT, r.Bound, r.LastFlip} {
			if v != nil {
				largest = max(largest, *v)
			}
		}
	}
	switch {
	case largest >= 1e6:
		return timeUnit{"s", 1e6}
	case largest >= 1e5:
		return timeUnit{"ms", 1e3}
	}
	return microseconds
}

// cell prints a time with the given decimals in microseconds, or with four digits in a larger unit.
func (u timeUnit) cell(v *float64, decimals int) string {
	if v == nil {
		return missingText
	}
	if u.micros > 1 {
		decimals = 3
	}
	return strconv.FormatFloat(*v/u.micros, 'f', decimals, 64)
}

// fourDigits prints a value with four significant digits, or all before the point.
func fourDigits(v float64) string {
	switch a := max(v, -v); {
	case a == 0:
		return "0"
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

func megabytes(b float64) string { return strconv.FormatFloat(b/1e6, 'f', 2, 64) }

func countText[T int | int64](get func(*Result) T) func(*Result) string {
	return func(r *Result) string { return strconv.FormatInt(int64(get(r)), 10) }
}

// ofPackets is a value that only a world with packets has.
func ofPackets(cell func(r *Result) string) func(r *Result) string {
	return func(r *Result) string {
		if r.PacketHops == 0 {
			return missingText
		}
		return cell(r)
	}
}

// ofUplinks is megabytes of uplinks, which earlier versions' results have for worlds with packets only.
func ofUplinks(bytes func(r *Result) float64) func(r *Result) string {
	return func(r *Result) string {
		if r.PacketHops == 0 && r.UplinkBytesMean == 0 {
			return missingText
		}
		return megabytes(bytes(r))
	}
}

// Texts in place of a completion time.
const (
	dnfText         = "DNF" // did not finish
	interruptedText = "INT" // was interrupted before it finished

	// lateText marks a completion before the failure.
	lateText = "LATE"
)

// lostMeans is the definition of [Result.LostToFailure], also used in result.schema.json.
const lostMeans = "Packets lost on a cut link, or dropped by a switch because all possible next links were dead; data and " +
	"control packets."

// completionText returns the completion time as text, or that the collective did not complete.
func completionText(r *Result) string { return completionIn(microseconds, r) }

func completionIn(u timeUnit, r *Result) string {
	switch {
	case r.interrupted():
		return interruptedText
	case r.CCT == nil:
		return dnfText
	}
	text := u.cell(r.CCT, 1)
	if r.late() {
		text += " " + lateText
	}
	return text
}

// late reports whether the collective was complete before the failure.
func (r *Result) late() bool { return r.FirstFailure != nil && r.FirstFailure.AfterEnd }

// columns returns the table's columns.
func columns(u timeUnit) []tableColumn {
	return []tableColumn{
		{"notifier", "", "What may notify the hosts of a dead path. Retransmission timers run with every notifier.", true,
			func(r *Result) string { return r.Notifier }},
		{"scheme", "", "The load balancer.", true, func(r *Result) string { return r.Scheme }},
		{"seed", "", "Of everything random in the run.", false, func(r *Result) string { return strconv.FormatUint(r.Seed, 10) }},
		{"CCT", u.name, "Collective completion time: the last rank has received everything and has the last acknowledgement of all it sent. DNF: did not finish by the deadline, or stalled. INT: the user interrupted the run before either was known. LATE: the collective was complete before anything failed.", false,
			func(r *Result) string { return completionIn(u, r) }},
		{"CCT/bound", "x", "CCT over a lower bound that no load balancer can beat on this fabric, with this failure.", false,
			func(r *Result) string {
				if s, ok := r.Slowdown(); ok {
					return strconv.FormatFloat(s, 'f', 3, 64)
				}
				return missingText
			}},
		{"CCT/steps", "x", "CCT over the step bound, a larger lower bound that also knows the order of the messages, computations and late ranks: docs/bound.md.", false,
			func(r *Result) string {
				if s, ok := r.StepSlowdown(); ok {
					return strconv.FormatFloat(s, 'f', 3, 64)
				}
				return missingText
			}},
		{"bus", "GB/s", "Bus bandwidth as nccl-tests defines it: bytes over CCT, times 2(n-1)/n for an all-reduce of n ranks, (n-1)/n for an all-gather, a reduce-scatter or an even all-to-all.", false,
			func(r *Result) string {
				if r.BusBandwidth == nil {
					return missingText
				}
				return fourDigits(*r.BusBandwidth)
			}},
		{"uplink max", "MB", "Bytes of data packets on the most loaded ToR uplink.", false,
			ofUplinks(func(r *Result) float64 { return float64(r.UplinkBytesMax) })},
		{"mean", "MB", "The same, mean over all ToR uplinks.", false,
			ofUplinks(func(r *Result) float64 { return r.UplinkBytesMean })},
		{"QPs", "/host", "Queue pairs open at once, on the host that had most.", false, countText(func(r *Result) int { return r.QPsPerHostMax })},
		{"drops", "pkt", "Packets that switches dropped for lack of a buffer or a route, without those that count as lost.", false, ofPackets(countText(func(r *Result) int64 { return r.Drops }))},
		{"retx", "pkt", "Retransmitted data packets.", false, ofPackets(countText(func(r *Result) int64 { return r.Retransmissions }))},
		{"lost", "pkt", lostMeans, false, ofPackets(countText(func(r *Result) int64 { return r.LostToFailure }))},
		{"last flip", u.name, "From the cut to the last change of a queue pair's path, returns not counted.", false,
			func(r *Result) string { return u.cell(r.LastFlip, 2) }},
	}
}

// roughMicros prints microseconds in a unit that suits them.
func roughMicros(us float64) string { return fabric.Time(us * float64(fabric.Microsecond)).Rough() }

// CutOffs returns a line for each text of [Result].CutOff: how many runs could not finish for it.
func CutOffs(rs []*Result) []string {
	var lines []string
	for _, text := range distinctValues(rs, func(r *Result) string { return r.CutOff }) {
		if text == "" {
			continue
		}
		n := 0
		for _, r := range rs {
			if r.CutOff == text {
				n++
			}
		}
		lines = append(lines, fmt.Sprintf("CUT OFF: %s; %s could not finish", text, fabric.Count(n, "run")))
	}
	return lines
}

// outcomeText describes why a run did not finish, or that its failure came too late.
func outcomeText(r *Result) string {
	if r.late() {
		return fmt.Sprintf("the failure came at %s, after the run's end: it says nothing about the failure", roughMicros(r.FirstFailure.Time))
	}
	at := "at " + roughMicros(r.EndTime)
	switch r.End {
	case Deadline:
		return "not finished at the deadline, " + at
	case Stalled:
		return "stalled: nothing was left to happen " + at
	case Interrupted:
		return "interrupted " + at
	}
	return "not finished " + at
}
