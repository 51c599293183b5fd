package labeller

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

var (
	// ErrUnsupported is wrapped when this kernel, device or build cannot do
	// what was asked; the text says what is missing.
	ErrUnsupported = errors.New("labeller: not supported here")
	// ErrNotPermitted is wrapped when the process lacks a privilege; the text
	// names it.
	ErrNotPermitted = errors.New("labeller: not permitted")
	// ErrInvalid is wrapped when a queue pair or label cannot be.
	ErrInvalid = errors.New("labeller: invalid")
	// ErrFull is wrapped when there is no room for another queue pair.
	ErrFull = errors.New("labeller: no room for another queue pair")
	// ErrUnknownQP is wrapped by labellers that only know queue pairs they
	// were shown, when asked for another.
	ErrUnknownQP = errors.New("labeller: unknown queue pair")
)

// QP names a queue pair by what its packets say.
type QP struct {
	// Dst is the IP address the packets go to.
	Dst netip.Addr
	// Num is the BTH's destination queue pair: the number it has at Dst, 24
	// bits.
	Num uint32
}

// String prints the queue pair as in "10.0.1.2/0x00012b".
func (q QP) String() string { return fmt.Sprintf("%s/%#06x", q.Dst, q.Num) }

// Validate returns an error that wraps [ErrInvalid] if no packet can be of q.
func (q QP) Validate() error {
	switch {
	case !q.Dst.IsValid():
		return fmt.Errorf("%w: queue pair %#x has no destination address", ErrInvalid, q.Num)
	case q.Dst.Zone() != "":
		return fmt.Errorf("%w: queue pair %v: its address has a zone, which no packet carries", ErrInvalid, q)
	case q.Num >= 1<<24:
		return fmt.Errorf("%w: queue pair %v: the number has more than 24 bits", ErrInvalid, q)
	}
	return nil
}

// Assignment gives the packets of a queue pair a label.
type Assignment struct {
	QP    QP
	Label fabric.Label
}

// Validate returns an error that wraps [ErrInvalid] if the queue pair cannot
// be, or the label does not fit its carrier.
func (a Assignment) Validate() error {
	if a.Label >= 1<<fabric.LabelBits {
		return fmt.Errorf("%w: queue pair %v: label %d has more than %d bits", ErrInvalid, a.QP, a.Label, fabric.LabelBits)
	}
	return a.QP.Validate()
}

// Labeller writes labels into packets. It is safe for concurrent use.
type Labeller interface {
	// Set labels queue pairs from their next packet on; what they were
	// labelled before is replaced. On an error the assignments before the one
	// it names are in force, those behind it may be.
	Set(...Assignment) error
	// Clear leaves the packets of queue pairs alone from the next on. A queue
	// pair that has no label is no error.
	Clear(...QP) error
	// Assignments returns what is set, in the order of addresses and numbers.
	// After an agent's restart it is what the labeller went on doing.
	Assignments() ([]Assignment, error)
	// Counters returns what was counted since the labeller was made, or an
	// error wrapping ErrUnsupported where nothing counts.
	Counters() (Counters, error)
	// Close ends the labelling and frees what it took. Where labels are kept
	// across restarts, they go on.
	Close() error
}

// Discoverer is a [Labeller] that sees queue pairs of others.
type Discoverer interface {
	Labeller
	// Unlabelled returns queue pairs whose packets were seen while they had no
	// label, the one seen last first. Old ones are forgotten to make room.
	Unlabelled() ([]Seen, error)
	// Unused returns queue pairs that have a label and of which no packet
	// passed since the last call, or since they were given it.
	Unused() ([]QP, error)
}

// Seen is a queue pair whose packets passed without a label.
type Seen struct {
	QP QP
	// Count is how many passed, roughly: several processors may count at once.
	Count Count
	// Ago is the time since the last.
	Ago time.Duration
	// Label is what its owner says that it carries, though nobody set it here: of a
	// queue pair that was labelled by an agent before this one. Nil: nothing known.
	Label *fabric.Label
}

// Count is a number of packets and of their bytes, from the Ethernet header to
// the ICRC.
type Count struct{ Packets, Bytes uint64 }

// Reason is what became of a frame that a labeller looked at.
type Reason uint8

// The reasons, in the order of the kernel program's counters.
const (
	// Labelled: the packet carries its queue pair's label.
	Labelled Reason = iota
	// NoLabel: RoCEv2, of a queue pair that has no label.
	NoLabel
	// Fragment: the first fragment of a RoCEv2 datagram, left alone: its ICRC
	// is in another packet.
	Fragment
	// Malformed: headers that are cut off or whose lengths contradict each
	// other, left alone.
	Malformed
	// Segmented: one buffer that the interface will cut into several packets,
	// left alone: only then will they have ICRCs.
	Segmented
	// Failed: the kernel had no memory to make the packet writable; it went
	// out as it was.
	Failed
	// NotRoCE: all other traffic.
	NotRoCE
	// Reasons is how many there are.
	Reasons
)

// String returns the reason as metrics name it.
func (r Reason) String() string {
	switch r {
	case Labelled:
		return "labelled"
	case NoLabel:
		return "no_label"
	case Fragment:
		return "fragment"
	case Malformed:
		return "malformed"
	case Segmented:
		return "segmented"
	case Failed:
		return "failed"
	case NotRoCE:
		return "not_roce"
	}
	return fmt.Sprintf("reason_%d", uint8(r))
}

// Counters is what a labeller counted.
type Counters struct {
	// Labels counts the packets that went out with each label. Labels that
	// counted none are absent.
	Labels map[fabric.Label]Count
	// Reasons counts all frames, by [Reason].
	Reasons [Reasons]Count
}

// Sort puts assignments into the order of addresses and numbers.
func Sort(as []Assignment) {
	slices.SortFunc(as, func(a, b Assignment) int {
		return cmp.Or(a.QP.Dst.Compare(b.QP.Dst), cmp.Compare(a.QP.Num, b.QP.Num))
	})
}

// SortSeen puts queue pairs into the order of when they were seen, the last
// first.
func SortSeen(s []Seen) {
	slices.SortFunc(s, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(a.Ago, b.Ago), a.QP.Dst.Compare(b.QP.Dst), cmp.Compare(a.QP.Num, b.QP.Num))
	})
}

// Carrier is where an IPv6 packet carries its label. In IPv4 it is always the
// UDP source port.
type Carrier uint8

// The carriers.
const (
	// SourcePort is the UDP source port, 0xC000 | label.
	SourcePort Carrier = iota
	// FlowLabel is the IPv6 flow label, 0xFC000 | label.
	FlowLabel
)
