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
	// ErrUnsupported is wrapped by errors that say which function this kernel, device or build lacks.
	ErrUnsupported = errors.New("labeller: not supported here")
	// ErrNotPermitted is wrapped by errors that say which privilege the process lacks.
	ErrNotPermitted = errors.New("labeller: not permitted")
	// ErrInvalid is wrapped by errors about a queue pair or label that is out of range.
	ErrInvalid = errors.New("labeller: invalid")
	// ErrFull is wrapped by errors that say that there is no room for another queue pair.
	ErrFull = errors.New("labeller: no room for another queue pair")
	// ErrUnknownQP is wrapped by errors about a queue pair that its owner has not announced, of labellers that require
	// that.
	ErrUnknownQP = errors.New("labeller: unknown queue pair")
)

// QP identifies a queue pair by fields of its packets.
type QP struct {
	// Dst is the packets' destination IP address.
	Dst netip.Addr
	// Num is the BTH's destination queue pair: its number at Dst, 24 bits.
	Num uint32
}

// String prints the queue pair as in "10.0.1.2/0x00012b".
func (q QP) String() string { return fmt.Sprintf("%s/%#06x", q.Dst, q.Num) }

// Validate returns an error that wraps [ErrInvalid] if no packet can belong to q.
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

// Assignment is the path label for the packets of a queue pair.
type Assignment struct {
	QP    QP
	Label fabric.Label
}

// Validate returns an error that wraps [ErrInvalid] if the queue pair is invalid, or the label does not fit its
// carrier.
func (a Assignment) Validate() error {
	if a.Label >= 1<<fabric.LabelBits {
		return fmt.Errorf("%w: queue pair %v: label %d has more than %d bits", ErrInvalid, a.QP, a.Label, fabric.LabelBits)
	}
	return a.QP.Validate()
}

// Labeller sets the path labels in the packets of queue pairs. It is safe for concurrent use.
type Labeller interface {
	// Set labels queue pairs from their next packet on, and replaces earlier labels. The error names an assignment:
	// those before it have been made, those behind it may have been.
	Set(...Assignment) error
	// Clear removes the labels of queue pairs from their next packet on. Queue pairs without a label are ignored.
	Clear(...QP) error
	// Assignments returns the labels in force, in order of addresses and numbers. They may be from before the agent's
	// restart.
	Assignments() ([]Assignment, error)
	// Counters returns the counts since the labeller was made, or an error that wraps ErrUnsupported if it does not
	// count.
	Counters() (Counters, error)
	// Close frees the labeller's resources. Packets are not labelled any more, unless labels are kept across restarts.
	Close() error
}

// Discoverer is a [Labeller] that sees the queue pairs of other programs.
type Discoverer interface {
	Labeller
	// Unlabelled returns queue pairs whose packets were seen without a label, the most recent first. Old ones are
	// forgotten to make room.
	Unlabelled() ([]Seen, error)
	// Unused returns labelled queue pairs without packets since the last call, or since they were labelled.
	Unused() ([]QP, error)
}

// Seen is a queue pair whose packets were seen without a label.
type Seen struct {
	QP QP
	// Count is the number of packets; approximate, because several processors count.
	Count Count
	// Ago is the time since the last packet.
	Ago time.Duration
	// Label is the label that the queue pair's owner reports, if an earlier agent set one. Nil: unknown.
	Label *fabric.Label
}

// Count is a number of packets, and of their bytes from the Ethernet header to the ICRC.
type Count struct{ Packets, Bytes uint64 }

// Reason is a labeller's decision about a frame, with its reason.
type Reason uint8

// The reasons, in the order of the kernel program's counters.
const (
	// Labelled: the packet carries its queue pair's label.
	Labelled Reason = iota
	// NoLabel: RoCEv2, of a queue pair without a label.
	NoLabel
	// Fragment: the first fragment of a RoCEv2 datagram, not changed: its ICRC is in another packet.
	Fragment
	// Malformed: headers that are cut off or have contradictory lengths, not changed.
	Malformed
	// Segmented: a buffer that the interface will cut into several packets; not changed, since the ICRCs are computed
	// after that.
	Segmented
	// Failed: the kernel had no memory to make the packet writable; it was sent unchanged.
	Failed
	// NotRoCE: all other traffic.
	NotRoCE
	// Reasons is the number of reasons.
	Reasons
)

// String returns the reason's name in metrics.
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

// Counters is how many packets a labeller has seen: by label, and by [Reason].
type Counters struct {
	// Labels counts the packets sent with each label. Labels without packets are absent.
	Labels map[fabric.Label]Count
	// Reasons counts all frames, by [Reason].
	Reasons [Reasons]Count
}

// Sort sorts assignments by addresses and numbers.
func Sort(as []Assignment) {
	slices.SortFunc(as, func(a, b Assignment) int {
		return cmp.Or(a.QP.Dst.Compare(b.QP.Dst), cmp.Compare(a.QP.Num, b.QP.Num))
	})
}

// SortSeen sorts queue pairs by the time of their last packet, the most recent first.
func SortSeen(s []Seen) {
	slices.SortFunc(s, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(a.Ago, b.Ago), a.QP.Dst.Compare(b.QP.Dst), cmp.Compare(a.QP.Num, b.QP.Num))
	})
}

// Carrier is the field that carries the label in IPv6 packets. In IPv4 it is always the UDP source port.
type Carrier uint8

// The carriers.
const (
	// SourcePort is the UDP source port, 0xC000 | label.
	SourcePort Carrier = iota
	// FlowLabel is the IPv6 flow label, 0xFC000 | label.
	FlowLabel
)
