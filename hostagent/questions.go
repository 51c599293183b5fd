package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// dueQuestion is an entry of the heap of questions; it is as old as the last push of its question or older.
type dueQuestion struct {
	at  fabric.Time
	seq uint64
	q   *question
}

// Before orders questions by time, then as they came.
func (d dueQuestion) Before(o dueQuestion) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }

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
