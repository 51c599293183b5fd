package scenario

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// headerBytes is about the size of a full packet's headers, and of an answer; only the order of magnitude matters here.
const headerBytes = 82

// Hint returns a warning if the retransmission time-out is too short for the scenario's links, so that senders
// retransmit packets that are still in flight and a healthy run does not finish; otherwise "".
func (s *Scenario) Hint() string {
	spec := s.slowedFabric()
	hops := []fabric.LinkSpec{spec.HostLink, spec.ToRUplink}
	if spec.Kind == fabric.KindFatTree {
		hops = append(hops, spec.AggUplink)
	}
	full := int64(s.Host.Payload) + headerBytes
	slowest, trip := fabric.Rate(math.MaxInt64), fabric.Time(0)
	for _, l := range hops {
		if l.Rate == 0 {
			l = fabric.LinkSpec{Rate: fabric.DefaultRate, Delay: fabric.DefaultDelay}
		}
		slowest = min(slowest, l.Rate)
		trip += 2 * (l.Rate.TimeFor(full) + l.Rate.TimeFor(headerBytes) + 2*l.Delay) // up and down, both directions
	}
	queue := fabric.Time(0)
	if s.Switch.ECN.KMax > 0 && s.Host.CongestionControl != transport.NoControl {
		queue = slowest.TimeFor(int64(min(s.Switch.ECN.KMin, s.Switch.Buffer)))
	}
	if s.Host.RTO >= trip+queue {
		return ""
	}
	text := fmt.Sprintf("host.rto is %s, and a packet of %s and its answer take %s over links of %s", s.Host.RTO.Rough(),
		s.Host.Payload.Rough(), trip.Rough(), slowest.Rough())
	if queue > 0 {
		text += fmt.Sprintf(", and up to %s more behind a queue of switch.ecn.kmin (%s)", queue.Rough(), s.Switch.ECN.KMin.Rough())
	}
	remedy := fmt.Sprintf("write host: {rto: %v}", roundUp(2*(trip+queue)))
	if queue > trip {
		remedy += ", or less for switch.ecn.kmin and kmax"
	} else {
		remedy += ", or less for host.payload"
	}
	return text + ": senders repeat what is merely under way; " + remedy
}

// SeedHint returns a warning if the only seed is above 1, because "seeds: 5" does not mean five seeds; otherwise
// "".
func (s *Scenario) SeedHint() string {
	if len(s.Seeds) != 1 || s.Seeds[0] == 1 {
		return ""
	}
	return fmt.Sprintf("seeds: %d is one seed, number %d; for %[1]d seeds write 1..%[1]d", s.Seeds[0], s.Seeds[0])
}

// roundUp returns t rounded up to one digit.
func roundUp(t fabric.Time) fabric.Time {
	digit := fabric.Time(1)
	for t/digit >= 10 {
		digit *= 10
	}
	return (t + digit - 1) / digit * digit
}

// stretchText describes a world's changes of s.
func (s *Scenario) stretchText(world string, in *Scenario) string {
	if in.Slowed == 0 {
		return ""
	}
	var parts []string
	change := func(what, from, to string) {
		if from != to {
			parts = append(parts, fmt.Sprintf("%s %s instead of %s", what, to, from))
		}
	}
	change("links carry", cmp.Or(s.Fabric.HostLink.Rate, fabric.DefaultRate).Rough(), in.Slowed.Rough())
	for i, c := range s.Collectives {
		change(c.Name()+" has", c.Bytes.Rough(), in.Collectives[i].Bytes.Rough())
	}
	events := slices.ContainsFunc(s.Failures, func(f Failure) bool { return len(f.Events) > 0 })
	if times := s.Worlds.For(world).Time; times != 1 && events {
		parts = append(parts, fmt.Sprintf("times of events and expectations are %g times as long", times))
	}
	change("the deadline is", s.Deadline.Rough(), in.Deadline.Rough())
	change("packets carry", s.Host.Payload.Rough(), in.Host.Payload.Rough())
	change("the retransmission timer is", s.Host.RTO.Rough(), in.Host.RTO.Rough())
	change("congestion control is", string(s.Host.CongestionControl), string(in.Host.CongestionControl))
	return strings.Join(parts, "; ")
}
