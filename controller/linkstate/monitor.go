package linkstate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Health is whether a switch's port states are up to date.
type Health uint8

// The healths.
const (
	Disconnected Health = iota // no subscription; the last states are kept
	Syncing                    // subscribed; the first round of states is arriving
	Fresh                      // the switch's last gNMI message is recent
	Stale                      // there was no message for too long
)

func (h Health) String() string {
	return [...]string{"disconnected", "syncing", "fresh", "stale"}[h]
}

// ErrStaleAfter is returned for a time that is not above 0.
var ErrStaleAfter = errors.New("linkstate: stale-after must be above zero; twice the heartbeat and some is usual")

// Monitor keeps the port states of one switch, from its gNMI messages. It is not safe for concurrent use.
type Monitor struct {
	staleAfter fabric.Time
	health     Health
	lastReport fabric.Time // time of the last report
	ports      map[fabric.PortNo]port
	rates      map[fabric.PortNo]fabric.Rate // last reported
	names      *targets.PortMap
}

type port struct {
	up     bool
	seen   bool // since the subscription began
	timeNs int64
}

// Change is a port that went up or down. A port that is gone is down.
type Change struct {
	Port   fabric.PortNo
	Up     bool
	TimeNs int64 // of the switch's clock; 0: not given
	// Speed: the port's speed changed to Rate; 0: unknown to the switch.
	Speed bool
	Rate  fabric.Rate
}

// NewMonitor returns a monitor without subscription, which knows no port. names maps the switch's interfaces to ports;
// nil is [ParsePort]. Without a message for staleAfter it becomes stale.
func NewMonitor(staleAfter fabric.Time, names *targets.PortMap) (*Monitor, error) {
	if staleAfter <= 0 {
		return nil, ErrStaleAfter
	}
	return &Monitor{staleAfter: staleAfter, ports: map[fabric.PortNo]port{}, rates: map[fabric.PortNo]fabric.Rate{}, names: names}, nil
}

// Health returns the health as of the last call.
func (m *Monitor) Health() Health { return m.health }

// Up returns a port's last state. known is false if it never had one.
func (m *Monitor) Up(p fabric.PortNo) (up, known bool) {
	s, known := m.ports[p]
	return s.up, known
}

// Connected reports a new subscription: the switch will send all states again.
func (m *Monitor) Connected(now fabric.Time) {
	m.health, m.lastReport = Syncing, now
	for p, s := range m.ports {
		s.seen = false
		m.ports[p] = s
	}
}

// Disconnected reports the end of the subscription. The last states are kept.
func (m *Monitor) Disconnected() { m.health = Disconnected }

// Receive processes one message of the subscription and returns the changes, sorted by port. After an error the
// message counts as received, and the changes in its valid part are returned.
func (m *Monitor) Receive(now fabric.Time, r *gnmi.SubscribeResponse) ([]Change, error) {
	if m.health == Disconnected {
		m.Connected(now)
	}
	m.lastReport = now
	if m.health == Stale {
		m.health = Fresh
	}
	switch x := r.GetResponse().(type) {
	case *gnmi.SubscribeResponse_Update:
		events, err := Decode(x.Update, m.names)
		return m.apply(events), err
	case *gnmi.SubscribeResponse_SyncResponse:
		if m.health != Syncing {
			return nil, nil
		}
		m.health = Fresh
		// Interfaces that the switch did not name in its first round no longer exist.
		var events []Event
		for p, s := range m.ports {
			if !s.seen {
				events = append(events, Event{Port: p, Kind: Gone})
			}
		}
		return m.apply(events), nil
	}
	return nil, fmt.Errorf("%w: a response of type %T", ErrNotification, r.GetResponse())
}

// apply processes events in order and returns the net changes.
func (m *Monitor) apply(events []Event) []Change {
	before := map[fabric.PortNo]port{}
	touch := func(p fabric.PortNo, up bool, at int64) {
		if _, ok := before[p]; !ok {
			before[p] = m.ports[p]
		}
		m.ports[p] = port{up: up, seen: true, timeNs: at}
	}
	unknown := map[fabric.PortNo]bool{}
	var out []Change
	for _, e := range events {
		if e.Kind == Speed {
			if m.rates[e.Port] != e.Rate {
				m.rates[e.Port] = e.Rate
				out = append(out, Change{Port: e.Port, TimeNs: e.TimeNs, Speed: true, Rate: e.Rate})
			}
			continue
		}
		if e.Kind == AllGone {
			for p := range m.ports {
				touch(p, false, e.TimeNs)
			}
			continue
		}
		if _, ok := m.ports[e.Port]; !ok {
			unknown[e.Port] = true
		}
		touch(e.Port, e.Kind == Up, e.TimeNs)
	}
	for p, was := range before {
		if is := m.ports[p]; unknown[p] || is.up != was.up {
			out = append(out, Change{Port: p, Up: is.up, TimeNs: is.timeNs})
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int { return int(a.Port) - int(b.Port) })
	return out
}

// Deadline returns when [Monitor.Tick] is due. ok is false if no timer runs.
func (m *Monitor) Deadline() (_ fabric.Time, ok bool) {
	if m.health != Syncing && m.health != Fresh {
		return 0, false
	}
	if m.lastReport > farFuture-m.staleAfter {
		return farFuture, true
	}
	return m.lastReport + m.staleAfter, true
}

// Tick makes the monitor stale if its deadline has passed, and reports whether it did.
func (m *Monitor) Tick(now fabric.Time) bool {
	if _, ok := m.Deadline(); !ok || now-m.lastReport < m.staleAfter {
		return false
	}
	m.health = Stale
	return true
}
