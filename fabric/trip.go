package fabric

// RoundTrip returns the time from the first byte of a packet of `there` bytes until the last byte of an answer of
// `back` bytes, between two hosts of an otherwise idle fabric, whose switches store and forward. Bytes include framing.
func (f *Fabric) RoundTrip(a, b NodeID, there, back int64) Time {
	trip := f.spec.HostLink.roundTrip(there, back)
	if f.ToROf(a) == f.ToROf(b) {
		return trip
	}
	trip += f.spec.ToRUplink.roundTrip(there, back)
	if f.ThreeTier() && f.Node(f.ToROf(a)).Pod != f.Node(f.ToROf(b)).Pod {
		trip += f.spec.AggUplink.roundTrip(there, back)
	}
	return trip
}

// LongestRoundTrip is [Fabric.RoundTrip] for the hosts that are farthest apart.
func (f *Fabric) LongestRoundTrip(there, back int64) Time {
	trip := f.spec.HostLink.roundTrip(there, back) + f.spec.ToRUplink.roundTrip(there, back)
	if f.ThreeTier() {
		trip += f.spec.AggUplink.roundTrip(there, back)
	}
	return trip
}

// roundTrip is the part of a round trip on two links of the kind, one up and one down.
func (l LinkSpec) roundTrip(there, back int64) Time {
	return 4*l.Delay + 2*l.Rate.TimeFor(there) + 2*l.Rate.TimeFor(back)
}
