package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// dueQuestions is a heap; entries are as old as the last push of their question or older.
type dueQuestions []dueQuestion

type dueQuestion struct {
	at  fabric.Time
	seq uint64
	q   *question
}

func (h dueQuestions) Len() int { return len(h) }
func (h dueQuestions) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h dueQuestions) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueQuestions) Push(x any)   { *h = append(*h, x.(dueQuestion)) }
func (h *dueQuestions) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// rtt estimates the time by which path probes exceed the longest trip of an idle fabric, as RFC 6298 estimates a round
// trip.
type rtt struct {
	srtt, rttvar fabric.Time
	samples      int
}

func (r *rtt) sample(trip fabric.Time) {
	if r.samples++; r.samples == 1 {
		r.srtt, r.rttvar = trip, trip/2
		return
	}
	r.rttvar += (max(trip-r.srtt, r.srtt-trip) - r.rttvar) / 4
	r.srtt += (trip - r.srtt) / 8
}
