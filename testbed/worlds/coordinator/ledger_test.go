package coordinator

import (
	"slices"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// TestLedger: each message is posted once, arrives once, with its bytes, and is acknowledged once, in whatever order
// two hosts say so. What is not like that is named.
func TestLedger(t *testing.T) {
	posted := hostEvent{0, hostproto.Event{Kind: hostproto.Posted, ID: 7, Peer: 1, Bytes: 10, CRC: 5}}
	received := hostEvent{1, hostproto.Event{Kind: hostproto.Received, ID: 7, Peer: 0, Bytes: 10, CRC: 5}}
	sent := hostEvent{0, hostproto.Event{Kind: hostproto.Sent, ID: 7}}
	other := received
	other.CRC = 6
	// The ID is the sender's: another host's message of the same one is another message.
	theirs := hostEvent{1, hostproto.Event{Kind: hostproto.Posted, ID: 7, Peer: 0, Bytes: 3, CRC: 1}}
	for _, c := range []struct {
		name   string
		events []hostEvent
		open   int
		want   string // of the error; "": none
	}{
		{"in order", []hostEvent{posted, received, sent}, 0, ""},
		{"arrival heard of first", []hostEvent{received, posted, sent}, 0, ""},
		{"acknowledgement heard of first", []hostEvent{sent, received, posted}, 0, ""},
		{"not acknowledged", []hostEvent{posted, received}, 1, "1 messages were lost"},
		{"not arrived", []hostEvent{posted, sent}, 1, "1 messages were lost"},
		{"the same ID of another host", []hostEvent{posted, received, sent, theirs}, 1, "1 messages were lost"},
		{"twice", []hostEvent{posted, received, sent, received}, 0, "of host 0 arrived twice"},
		{"posted twice", []hostEvent{posted, posted, received, sent}, 0, "host 0 posted message"},
		{"acknowledged twice", []hostEvent{posted, received, sent, sent}, 0, "of host 0 was acknowledged twice"},
		{"other bytes", []hostEvent{posted, other, sent}, 0, "arrived with checksum 0x00000006; it was posted with 0x00000005"},
		{"other bytes, heard of first", []hostEvent{other, posted, sent}, 0, "arrived with checksum 0x00000006; it was posted with 0x00000005"},
		{"a host's own fault", []hostEvent{{1, hostproto.Event{Kind: hostproto.Fault, Text: "no room"}}}, 0, "host 1: no room"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			for _, e := range c.events {
				l.take(e)
			}
			if l.open != c.open {
				t.Errorf("%d messages are open, want %d", l.open, c.open)
			}
			switch err := l.check(); {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// TestLedgerFaultsEnd: a host that faults all the time does not fill the memory.
func TestLedgerFaultsEnd(t *testing.T) {
	l := newLedger()
	for range 10 * maxFaults {
		l.take(hostEvent{0, hostproto.Event{Kind: hostproto.Fault, Text: "again"}})
	}
	if len(l.faults) != maxFaults {
		t.Errorf("%d faults are kept, want %d", len(l.faults), maxFaults)
	}
}

// TestUpdates: one change that all hosts received is one update, at the time of the first. What they received before
// the run, and a controller's whole state to one that comes back to it, are none; of a new controller it is one.
func TestUpdates(t *testing.T) {
	l := newLedger()
	push := func(rank int, at int64, instance string, epoch uint64, snapshot bool) {
		l.take(hostEvent{rank, hostproto.Event{Kind: hostproto.Push, At: at, Instance: instance, Epoch: epoch, Snapshot: snapshot}})
	}
	push(0, 50, "a", 3, true)
	push(1, 60, "a", 3, true)
	push(0, 90, "a", 4, false)
	push(1, 110, "a", 4, false)
	push(1, 205, "a", 5, false)
	push(0, 200, "a", 5, false)
	push(0, 210, "a", 6, false)
	push(1, 220, "a", 6, true) // was away
	push(0, 300, "b", 1, true)
	push(1, 310, "b", 1, true)
	if got, want := l.updates(100), []int64{200, 210, 300}; !slices.Equal(got, want) {
		t.Errorf("updates at %v, want %v", got, want)
	}
}
