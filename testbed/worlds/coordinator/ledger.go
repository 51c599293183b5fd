package coordinator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ledger accounts for messages: each is posted once, arrives once, with the posted bytes, and is acknowledged once.
type ledger struct {
	messages map[messageKey]*message
	open     int           // posted but not yet both received and acknowledged
	done     map[int]int64 // ranks whose part of the job is done, with the time
	faults   []error

	flips, quenches, timeouts, pushes []hostEvent
}

// messageKey identifies a message: IDs are the sender's.
type messageKey struct {
	src int
	id  uint64
}

type message struct {
	crc                     uint32 // as posted
	gotCRC                  uint32
	posted, received, acked bool
}

func newLedger() *ledger {
	return &ledger{messages: map[messageKey]*message{}, done: map[int]int64{}}
}

// maxFaults is the largest number of faults kept.
const maxFaults = 20

func (l *ledger) fault(format string, args ...any) {
	if len(l.faults) < maxFaults {
		l.faults = append(l.faults, fmt.Errorf("coordinator: "+format, args...))
	}
}

func (l *ledger) message(src int, id uint64) *message {
	k := messageKey{src, id}
	m := l.messages[k]
	if m == nil {
		m = &message{}
		l.messages[k] = m
		l.open++
	}
	return m
}

// take enters an event. Events of two hosts may come in any order: a message can arrive before its posting is
// reported.
func (l *ledger) take(e hostEvent) {
	switch e.Kind {
	case hostproto.Posted:
		m := l.message(e.Rank, e.ID)
		if m.posted {
			l.fault("host %d posted message %v twice", e.Rank, collective.ID(e.ID))
		}
		m.posted, m.crc = true, e.CRC
		if m.received {
			l.compare(e.Rank, e.ID, m)
		}
		l.closeIfDone(m)
	case hostproto.Received:
		m := l.message(e.Peer, e.ID)
		if m.received {
			l.fault("message %v of host %d arrived twice", collective.ID(e.ID), e.Peer)
			return
		}
		m.received, m.gotCRC = true, e.CRC
		if m.posted {
			l.compare(e.Peer, e.ID, m)
		}
		l.closeIfDone(m)
	case hostproto.Sent:
		m := l.message(e.Rank, e.ID)
		if m.acked {
			l.fault("message %v of host %d was acknowledged twice", collective.ID(e.ID), e.Rank)
			return
		}
		m.acked = true
		l.closeIfDone(m)
	case hostproto.Done:
		l.done[e.Rank] = e.At
	case hostproto.Fault:
		l.fault("host %d: %s", e.Rank, e.Text)
	case hostproto.Flip:
		l.flips = append(l.flips, e)
	case hostproto.Quench:
		l.quenches = append(l.quenches, e)
	case hostproto.Timeout:
		l.timeouts = append(l.timeouts, e)
	case hostproto.Push:
		l.pushes = append(l.pushes, e)
	}
}

func (l *ledger) compare(src int, id uint64, m *message) {
	if m.crc != m.gotCRC {
		l.fault("message %v of host %d arrived with checksum %#08x; it was posted with %#08x", collective.ID(id), src, m.gotCRC, m.crc)
	}
}

func (l *ledger) closeIfDone(m *message) {
	if m.posted && m.received && m.acked {
		l.open--
	}
}

// check returns an error if something is missing or wrong after the end.
func (l *ledger) check() error {
	errs := l.faults
	if l.open > 0 {
		errs = append(errs, fmt.Errorf("coordinator: %d messages were lost", l.open))
	}
	return errors.Join(errs...)
}

// updates returns when the first host received each of the controllers' updates after a moment. A controller's
// snapshot counts if no host knew the controller.
func (l *ledger) updates(after int64) []int64 {
	type update struct {
		instance string
		epoch    uint64
		snapshot bool
	}
	first := map[update]int64{}
	for _, h := range l.pushes {
		u := update{h.Instance, h.Epoch, h.Snapshot}
		if u.snapshot {
			u.epoch = 0
		}
		if at, ok := first[u]; !ok || h.At < at {
			first[u] = h.At
		}
	}
	var at []int64
	for _, t := range first {
		if t >= after {
			at = append(at, t)
		}
	}
	slices.Sort(at)
	return at
}
