package fabric

// RTT estimates a round trip, or the part of it that varies, as RFC 6298 does. Before the first sample all are 0.
type RTT struct {
	SRTT, RTTVar Time // smoothed value, and mean deviation
	Samples      int
}

// Sample takes a measured round trip.
func (r *RTT) Sample(trip Time) {
	if r.Samples++; r.Samples == 1 {
		r.SRTT, r.RTTVar = trip, trip/2
		return
	}
	r.RTTVar += (max(trip-r.SRTT, r.SRTT-trip) - r.RTTVar) / 4
	r.SRTT += (trip - r.SRTT) / 8
}
