// Package damping keeps links that flap from shaking the fabric.
//
// A port that goes down is believed at once: packets are being lost. A port that
// comes up is believed at once too, until it has flapped so often that it is held
// down: each time it goes down adds [Penalty] to its account, which halves every
// half-life; above Suppress it stays down for everybody, until its account has
// fallen below Reuse and it is up. So the first failures of a link cost nothing,
// and one that flaps all the time changes the fabric once and then no more.
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

// Penalty is what one failure costs.
const Penalty = 1000

// ErrConfig is wrapped by the errors of [New].
var ErrConfig = errors.New("damping: bad config")

// Config says how much flapping is too much. With the zero value, which stands
// for the defaults, a port that goes down a third time within some 10 s is held
// down: for 30 s if it goes on no longer, and for at most a minute after its last
// failure.
type Config struct {
	Suppress float64     // account above which a port is held down; 0: 2500
	Reuse    float64     // account below which it is let go; 0: 750
	HalfLife fabric.Time // of the account; 0: 15 s
	Longest  fabric.Time // a port is held no longer after its last failure; 0: 60 s
	// Off believes everything at once.
	Off bool
}

// Port is what is damped.
type Port = fabric.End

// Event is a state to be believed from now on.
type Event struct {
	Port Port
	Up   bool
}

// Damper keeps the accounts of ports.
type Damper struct {
	cfg   Config
	ports map[Port]*account // of those that ever went down
}

type account struct {
	up, damped bool // the port's own word; whether it is held down
	penalty    float64
	at         fabric.Time // of penalty
}

// New returns a damper that knows of no failure.
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
	return &Damper{cfg: cfg, ports: map[Port]*account{}}, nil
}

// decay brings an account up to date.
func (d *Damper) decay(a *account, now fabric.Time) {
	if dt := now - a.at; dt > 0 {
		a.penalty *= math.Exp2(-float64(dt) / float64(d.cfg.HalfLife))
		a.at = now
	}
}

// ceiling is the account from which it takes Longest to fall to Reuse.
func (d *Damper) ceiling() float64 {
	return d.cfg.Reuse * math.Exp2(float64(d.cfg.Longest)/float64(d.cfg.HalfLife))
}

// State takes a port's word on itself and reports whether it is to be believed
// now. What is not comes out of [Damper.Tick] later, if it still holds.
func (d *Damper) State(now fabric.Time, p Port, up bool) (believe bool) {
	a := d.ports[p]
	switch {
	case d.cfg.Off || a == nil && up:
		return true
	case a == nil:
		a = &account{up: true, at: now}
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
	a.penalty = min(a.penalty+Penalty, d.ceiling())
	a.damped = a.damped || a.penalty > d.cfg.Suppress
	return true
}

// release is when a held port is let go.
func (d *Damper) release(a *account) fabric.Time {
	wait := float64(d.cfg.HalfLife) * math.Log2(a.penalty/d.cfg.Reuse)
	return a.at + fabric.Time(math.Ceil(max(wait, 0))) + fabric.Nanosecond
}

// Deadline returns when [Damper.Tick] is due. ok is false if no port is held.
func (d *Damper) Deadline() (due fabric.Time, ok bool) {
	for _, a := range d.ports {
		if t := d.release(a); a.damped && (!ok || t < due) {
			due, ok = t, true
		}
	}
	return due, ok
}

// Tick lets go of the ports that have calmed down and returns what is to be
// believed now, in port order. It forgets ports whose failures are long past.
func (d *Damper) Tick(now fabric.Time) []Event {
	var out []Event
	for p, a := range d.ports {
		switch {
		case a.damped && now >= d.release(a):
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

// Rebase has all later times count from now.
func (d *Damper) Rebase(now fabric.Time) {
	for _, a := range d.ports {
		a.at = a.at.Rebase(now)
	}
}

// Damped returns whether a port is held down though it may say that it is up.
func (d *Damper) Damped(p Port) bool {
	a := d.ports[p]
	return a != nil && a.damped
}
