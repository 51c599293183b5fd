package port

import "errors"

// Port receives and sends Ethernet frames, without frame check sequence. The package comment says which calls may be
// concurrent.
type Port interface {
	// Receive calls f with each of up to limit frames that have arrived, and returns their number: less than limit if
	// no more have. It does not wait. f may change the bytes, and must not keep them.
	Receive(limit int, f func(frame []byte)) int
	// Send sends frames, from the first on, while there is room, and returns the number accepted. It does not wait, and
	// keeps no bytes. A frame that can never be sent, because it is too long or the link is down, is accepted and
	// counted.
	Send(frames [][]byte) int
	// Counters returns the numbers of frames and bytes so far.
	Counters() Counters
	// Close frees the port's resources. A second call does nothing.
	Close() error

	// Attach adds the port to a poller, whose events for it have that id.
	Attach(p *Poller, id int) error
}

// Counters is the numbers of frames and bytes since a port was opened.
type Counters struct {
	InPkts, InOctets   uint64
	OutPkts, OutOctets uint64
	// Of the packets, those with a multicast or broadcast destination. Only an [Interface] counts them.
	InMulticast, InBroadcast, OutMulticast, OutBroadcast uint64

	InFCS       uint64 // not received because of a wrong checksum; only [Links] knows
	InLost      uint64 // arrived while the receive ring was full
	InTooLong   uint64 // longer than a slot of the receive ring and not TCP; not delivered
	InCut       uint64 // TCP super-frames; delivered as segments, which count as packets
	InChecksums uint64 // delivered after their checksum was completed here
	OutDown     uint64 // not sent: the link was down or gone
	OutTooLong  uint64 // not sent: longer than the link allows
	OutLost     uint64 // refused by the interface's own queue, or for other reasons
}

// ErrUnsupported is wrapped if the operating system has no such port.
var ErrUnsupported = errors.New("not supported on this operating system")

// Event says that a port can receive or send.
type Event struct {
	ID  int  // as passed to [Poller.Add]
	In  bool // frames may have arrived: call Receive
	Out bool // there may be room again after a short Send
}
