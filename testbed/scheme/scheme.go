package scheme

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// Names of the schemes.
const (
	Ethereal = "ethereal"
	ECMP     = "ecmp"
	MPRDMA   = "mp-rdma"
)

// ErrScheme is wrapped by every error about a scheme's name or parameters.
var ErrScheme = errors.New("scheme: bad scheme")

// Host balances the flows of one host.
type Host interface {
	// Post takes the flows of one batching window.
	Post(now fabric.Time, batch []hostagent.Flow) error
	// Acked, Done and Timeout are what the NIC says of a queue pair: payload
	// bytes newly acknowledged; all of it acknowledged; timer expired.
	Acked(now fabric.Time, qp hostagent.QP, bytes int64)
	Done(now fabric.Time, qp hostagent.QP)
	Timeout(now fabric.Time, qp hostagent.QP)
	// Quench and Update are news of failures, from a switch and a controller. The
	// verdict on a quench is for the record.
	Quench(now fabric.Time, q hostagent.Quench) hostagent.Verdict
	Update(now fabric.Time, u *statepb.Update)
	// AckLabel chooses the label of a control packet to peer, given that of the
	// data packet that caused it, and whether a switch sent that packet round a
	// dead uplink.
	AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label
	// Tick does what is due; Deadline returns when it is to be called next, ok
	// false if not at all.
	Tick(now fabric.Time)
	Deadline() (at fabric.Time, ok bool)
	// Ready returns, once, what the calls since the last Ready ask for. The
	// slices are valid until the next call.
	Ready() hostagent.Ready
}

// Names returns the names of all schemes.
func Names() []string { return []string{Ethereal, ECMP, MPRDMA} }

// Params returns the names of the parameters a scheme takes. ok is false for an
// unknown scheme.
func Params(name string) (params []string, ok bool) {
	if name == MPRDMA {
		return []string{"ways"}, true
	}
	return nil, slices.Contains(Names(), name)
}

// New returns a host's balancer. Of the configuration, ecmp and mp-rdma use
// Fabric, Host, Seed and StartJitter. Errors about name and params wrap
// [ErrScheme], others come from the configuration.
func New(name string, params map[string]string, c hostagent.Config) (Host, error) {
	known, ok := Params(name)
	if !ok {
		return nil, fmt.Errorf("%w: %q is unknown; use one of %s", ErrScheme, name, strings.Join(Names(), ", "))
	}
	for _, p := range slices.Sorted(maps.Keys(params)) {
		if !slices.Contains(known, p) {
			return nil, fmt.Errorf("%w: %s takes no parameter %q; remove it", ErrScheme, name, p)
		}
	}
	switch name {
	case Ethereal:
		return newEthereal(c)
	case ECMP:
		return newHashed(c, 1)
	}
	ways := defaultWays
	if text, ok := params["ways"]; ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxWays {
			return nil, fmt.Errorf("%w: ways of %s is %q; use 1 to %d", ErrScheme, name, text, maxWays)
		}
		ways = n
	}
	return newHashed(c, ways)
}
