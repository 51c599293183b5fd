// Package damping limits the effect of flapping links on the fabric.
//
// A port that goes down is believed at once, because packets are being lost. A port that comes up is believed at
// once too, until it has flapped too often. Each time it goes down, [Penalty] is added to its account, which halves
// every half-life. Above Suppress the port is held down, until its account has fallen below Reuse and it is up. So
// the first failures of a link cost nothing, and a link that keeps flapping changes the fabric once.
//
// A [Damper] has no goroutine and no clock, and is not safe for concurrent use.
package damping

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Penalty is the amount that one failure adds to a port's penalty.
const Penalty = 1000

// ErrConfig is wrapped by the errors of [New].
var ErrConfig = errors.New("damping: bad config")

// Config sets the limits of flap damping, as BGP's (RFC 2439): each failure adds to a port's account, which decays.
// With the zero value, which means the defaults, a port that goes down a third time within some 10 s is held down: for
// 30 s if it does not flap again, and for at most a minute after its last failure.
type Config struct {
	Suppress float64     // account above which a port is held down; 0: 2500
	Reuse    float64     // account below which it is released; 0: 750
	HalfLife fabric.Time // time in which the account decays by half; 0: 15 s
	Longest  fabric.Time // longest hold after its last failure; 0: 60 s
	// Off disables damping.
	Off bool
}

// Port is the damped port.
type Port = fabric.End

// Event is a port's new state after damping.
type Event struct {
	Port Port
	Up   bool
}

// Damper decides which ports' states are believed, by their accounts of failures: see [Config].
type Damper struct {
	cfg   Config
	ports map[Port]*penalty // ports that ever went down
}

type penalty struct {
	up, damped bool // the port's reported state; whether it is held down
	penalty    float64
	at         fabric.Time // of penalty
}

// New returns a damper without recorded failures.
func New(cfg Config) (*Damper, error) {
	if cfg.Suppress == 0 {
		cfg.Suppress = 2.5 * Penalty
	}
	if cfg.Reuse == 0 {
		cfg.Reuse = 0.75 * Penalty
	}
	if cfg.HalfLife == 0 {
		cfg.HalfLife = 15 * fabric.Second
	}
	if cfg.Longest == 0 {
		cfg.Longest = 60 * fabric.Second
	}
	if cfg.Reuse <= 0 || cfg.Suppress <= cfg.Reuse || cfg.HalfLife <= 0 || cfg.Longest <= 0 {
		return nil, fmt.Errorf("%w: Suppress %v must be above Reuse %v, and that, HalfLife %v and Longest %v above 0",
			ErrConfig, cfg.Suppress, cfg.Reuse, cfg.HalfLife, cfg.Longest)
	}
	return &Damper{cfg: cfg, ports: map[Port]*penalty{}}, nil
}

// decay updates an account to the present time.
func (d *Damper) decay(a *penalty, now fabric.Time) {
	if dt := now - a.at; dt > 0 {
		a.penalty *= math.Exp2(-float64(dt) / float64(d.cfg.HalfLife))
		a.at = now
	}
}

// maxPenalty is the account that takes Longest to fall to Reuse.
func (d *Damper) maxPenalty() float64 {
	return d.cfg.Reuse * math.Exp2(float64(d.cfg.Longest)/float64(d.cfg.HalfLife))
}

// Reported processes a port's reported state, and reports whether to believe it now. [Damper.Tick] returns a state that
// was not believed later, if it still holds.
func (d *Damper) Reported(now fabric.Time, p Port, up bool) (believe bool) {
	a := d.ports[p]
	switch {
	case d.cfg.Off || a == nil && up:
		return true
	case a == nil:
		a = &penalty{up: true, at: now}
		d.ports[p] = a
	}
	if a.up == up {
		return !a.damped || !up
	}
	a.up = up
	d.decay(a, now)
	if up {
		return !a.damped
	}
	a.penalty = min(a.penalty+Penalty, d.maxPenalty())
	a.damped = a.damped || a.penalty > d.cfg.Suppress
	return true
}

// releaseTime returns the time at which a held port is released.
func (d *Damper) releaseTime(a *penalty) fabric.Time {
	wait := float64(d.cfg.HalfLife) * math.Log2(a.penalty/d.cfg.Reuse)
	return a.at + fabric.Time(math.Ceil(max(wait, 0))) + fabric.Nanosecond
}

// Deadline returns when [Damper.Tick] is due. ok is false if no port is held.
func (d *Damper) Deadline() (due fabric.Time, ok bool) {
	for _, a := range d.ports {
		if t := d.releaseTime(a); a.damped && (!ok || t < due) {
			due, ok = t, true
		}
	}
	return due, ok
}

// Tick returns the ports whose account has decayed and that are no longer held down, with their states, in port order.
func (d *Damper) Tick(now fabric.Time) []Event {
	var out []Event
	for p, a := range d.ports {
		switch {
		case a.damped && now >= d.releaseTime(a):
			a.damped = false
			if a.up {
				out = append(out, Event{Port: p, Up: true})
			}
		case !a.damped && a.up && now-a.at > 20*d.cfg.HalfLife:
			delete(d.ports, p)
		}
	}
	slices.SortFunc(out, func(a, b Event) int {
		if a.Port.Node != b.Port.Node {
			return int(a.Port.Node) - int(b.Port.Node)
		}
		return int(a.Port.Port) - int(b.Port.Port)
	})
	return out
}

// Rebase makes now the zero of the damper's clock.
func (d *Damper) Rebase(now fabric.Time) {
	for _, a := range d.ports {
		a.at = a.at.Rebase(now)
	}
}

// Damped reports whether a port is held down because it flaps.
func (d *Damper) Damped(p Port) bool {
	a := d.ports[p]
	return a != nil && a.damped
}
