package fabric

// RoundTrip returns the time from the first byte of a packet of `there` bytes until the last byte of an answer of
// `back` bytes, both with framing, between two hosts of an otherwise idle fabric. Switches store and forward, and the
// packets take the longest of the paths that labels name.
func (f *Fabric) RoundTrip(a, b NodeID, there, back int64) Time {
	trip := f.spec.HostLink.roundTrip(there, back)
	if f.ToROf(a) == f.ToROf(b) {
		return trip
	}
	if !f.Clos() {
		return f.dragonflyTrip(a, b, there, back)
	}
	trip += f.spec.ToRUplink.roundTrip(there, back)
	if f.ThreeTier() && f.Node(f.ToROf(a)).Pod != f.Node(f.ToROf(b)).Pod {
		trip += f.spec.AggUplink.roundTrip(there, back)
	}
	return trip
}

// LongestRoundTrip is [Fabric.RoundTrip] for the hosts that are farthest apart.
func (f *Fabric) LongestRoundTrip(there, back int64) Time {
	if !f.Clos() {
		return f.dragonflyLongestTrip(there, back)
	}
	trip := f.spec.HostLink.roundTrip(there, back) + f.spec.ToRUplink.roundTrip(there, back)
	if f.ThreeTier() {
		trip += f.spec.AggUplink.roundTrip(there, back)
	}
	return trip
}

// roundTrip returns the time that a round trip spends on two links of this spec, one up and one down.
func (l LinkSpec) roundTrip(there, back int64) Time {
	return 2 * l.oneTrip(there, back)
}

// oneTrip returns the time that a round trip spends on one link of this spec, in both directions.
func (l LinkSpec) oneTrip(there, back int64) Time {
	return 2*l.Delay + l.Rate.TimeFor(there) + l.Rate.TimeFor(back)
}
