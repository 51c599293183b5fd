package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// rtt estimates a round trip as RFC 6298 does: srtt is its smoothed value, 0 before the first sample, rttvar its mean
// deviation.
type rtt struct{ srtt, rttvar fabric.Time }

// sample takes a measured round trip.
func (r *rtt) sample(trip fabric.Time) {
	if r.srtt == 0 {
		r.srtt, r.rttvar = trip, trip/2
		return
	}
	r.rttvar += (max(trip-r.srtt, r.srtt-trip) - r.rttvar) / 4
	r.srtt += (trip - r.srtt) / 8
}
