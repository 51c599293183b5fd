// Package backoff computes waits between attempts: longer after every failure in a row, up to a limit, with jitter,
// so that many sessions that broke at one moment do not all come back at one moment.
//
// A [Policy] is immutable and safe for concurrent use; the caller counts failures.
package backoff

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrPolicy is wrapped by the errors of [Policy.Validate].
var ErrPolicy = errors.New("backoff: bad policy")

// Policy describes the waits between attempts that fail one after the other. Its zero value means [Default].
type Policy struct {
	First time.Duration // wait after the first failure
	Most  time.Duration // largest wait
	// Factor is the ratio of each wait to the previous one; at least 1.
	Factor float64
	// Jitter is the random share of a wait: a wait w is drawn evenly from (1-Jitter)*w to w. 0 to 1.
	Jitter float64
}

// The values of [Default].
const (
	defaultFirst  = 500 * time.Millisecond
	defaultMost   = 30 * time.Second
	defaultFactor = 2
	defaultJitter = 0.5
)

// Default returns the policy of the zero value: half a second, doubled after every failure, up to half a minute;
// half of each wait is random.
func Default() Policy {
	return Policy{First: defaultFirst, Most: defaultMost, Factor: defaultFactor, Jitter: defaultJitter}
}

func (p Policy) withDefaults() Policy {
	if p == (Policy{}) {
		return Default()
	}
	return p
}

// Validate returns the first error in p, naming the field.
func (p Policy) Validate() error {
	p = p.withDefaults()
	switch {
	case p.First <= 0:
		return fmt.Errorf("%w: First: %v is not above 0", ErrPolicy, p.First)
	case p.Most < p.First:
		return fmt.Errorf("%w: Most: %v is below First (%v)", ErrPolicy, p.Most, p.First)
	case math.IsNaN(p.Factor) || p.Factor < 1:
		return fmt.Errorf("%w: Factor: %v is below 1", ErrPolicy, p.Factor)
	case math.IsNaN(p.Jitter) || p.Jitter < 0 || p.Jitter > 1:
		return fmt.Errorf("%w: Jitter: %v is outside 0 to 1", ErrPolicy, p.Jitter)
	}
	return nil
}

// Wait returns the wait after a number of failures in a row; 0 without failures. chance is a random number from 0
// to below 1, drawn anew for each wait.
func (p Policy) Wait(failures int, chance float64) time.Duration {
	p = p.withDefaults()
	if failures <= 0 {
		return 0
	}
	w := float64(p.First)
	for i := 1; i < failures && w < float64(p.Most); i++ {
		w *= p.Factor
	}
	w = min(w, float64(p.Most))
	return time.Duration(w * (1 - p.Jitter*chance))
}
