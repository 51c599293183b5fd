package fabric

// RTT estimates a round-trip time and its variation, as RFC 6298 does. Before the first sample all fields are 0.
type RTT struct {
	SRTT, RTTVar Time // smoothed round-trip time, and its mean deviation
	Samples      int
}

// Sample updates the estimate with a measured round-trip time.
func (r *RTT) Sample(trip Time) {
	if r.Samples++; r.Samples == 1 {
		r.SRTT, r.RTTVar = trip, trip/2
		return
	}
	r.RTTVar += (max(trip-r.SRTT, r.SRTT-trip) - r.RTTVar) / 4
	r.SRTT += (trip - r.SRTT) / 8
}
