package report

import (
	"fmt"
	"io"
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// polarisation is how the switches of a tier choose uplinks, taken together where they have the same place above the
// ToRs: packets reach such switches by the same uplink of their ToRs. Where hashes are independent, each place's
// packets use all uplinks alike.
type polarisation struct {
	uplinks int     // of a switch
	used    float64 // effective number of uplinks of a place, mean weighted by bytes: 1/sum of squared shares
	least   float64 // that of independent hashes that is exceeded almost always
	flows   float64 // per place
}

// minFlows is the number of flows of a place below which chance alone may look like polarisation.
const minFlows = 20

// polarisationOf returns that of the aggregation switches; ok is false if nothing went up there.
func polarisationOf(r *Result, f *fabric.Fabric) (p polarisation, ok bool) {
	perPod := f.ToRUplinks()
	place := make([][]float64, perPod) // bytes by uplink
	crossing, sent := 0.0, 0.0
	for d, l := range r.Links {
		link := f.Link(fabric.LinkID(d / 2))
		if d%2 != 0 {
			continue
		}
		switch n := f.Node(link.A.Node); n.Tier {
		case fabric.Host:
			sent += float64(l.DataBytes)
		case fabric.Aggregation:
			at := int(link.A.Node-f.AggID(0)) % perPod
			if place[at] == nil {
				place[at] = make([]float64, n.Uplinks())
			}
			place[at][link.A.Port-n.FirstUplink()] += float64(l.DataBytes)
			crossing += float64(l.DataBytes)
			p.uplinks = n.Uplinks()
		}
	}
	if crossing == 0 || sent == 0 || p.uplinks < 2 {
		return p, false
	}
	for _, bytes := range place {
		sum, squares := 0.0, 0.0
		for _, b := range bytes {
			sum, squares = sum+b, squares+b*b
		}
		if sum > 0 {
			p.used += sum * sum / squares * sum / crossing
		}
	}
	if r.Flows != nil {
		p.flows = float64(r.Flows.Count) * crossing / sent / float64(perPod)
	}
	// With k flows, the sum of the squared shares of n uplinks is 1/n + (1-1/n)/k, with a deviation of
	// sqrt(2(n-1))/(nk); unequal sizes make k smaller.
	n, k := float64(p.uplinks), max(1, p.flows/3)
	p.least = min(1+(n-1)/2, 1/(1/n+(1-1/n)/k+5*math.Sqrt(2*(n-1))/(n*k)))
	return p, true
}

// Diagnose writes for each result how evenly switches that hash use their uplinks, and which tier polarises.
func Diagnose(w io.Writer, rs []*Result) error {
	for _, r := range Distinct(rs) {
		text, err := r.diagnosis()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n  %s\n", r, text); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

func (r *Result) diagnosis() (string, error) {
	f, err := fabric.New(r.Fabric)
	switch {
	case err != nil:
		return "", fmt.Errorf("report: %w", err)
	case len(r.Links) != 2*f.Links():
		return "no counters of links: take the file of ethereal run --out, or of ethereal bench --full", nil
	case !f.ThreeTier():
		return "only ToRs choose uplinks here: one hash cannot polarise", nil
	}
	p, ok := polarisationOf(r, f)
	if !ok {
		return "nothing went up from aggregation switches", nil
	}
	text := fmt.Sprintf("aggregation switches: packets that come by the same uplink of their ToRs use %.1f of %d uplinks", p.used, p.uplinks)
	switch {
	case p.flows < minFlows:
		return text + fmt.Sprintf("; about %.0f flows each are too few to tell polarisation from chance", p.flows), nil
	case p.used >= p.least:
		return text + ": the tier does not polarise", nil
	}
	text += fmt.Sprintf(", independent hashes at least %.1f: the tier polarises", p.least)
	fields := "addresses, protocol and UDP ports"
	if r.EqualHashes {
		return text + "\n  ToRs and aggregation switches hash the same fields (" + fields +
			") with the same seed and bits (switch.equal_hashes): packets that reach an aggregation switch agree in the hash" +
			" already. Use another seed or other bits there: equal_hashes: false", nil
	}
	return text + "\n  ToRs and aggregation switches hash the same fields (" + fields + "): compare the seeds of the tiers", nil
}
