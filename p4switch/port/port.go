package port

import "errors"

// Port receives and sends Ethernet frames, without frame check sequence. See
// the package's documentation for who may call what.
type Port interface {
	// Receive hands up to limit frames that have arrived to f and returns how
	// many: fewer than limit when there are no more. It does not wait. The
	// bytes are f's to change, during the call.
	Receive(limit int, f func(frame []byte)) int
	// Send takes frames from the first on, as far as there is room, and
	// returns how many. It does not wait, and keeps none of the bytes. A frame
	// that can never leave, because it is too long or the link is down, counts
	// as taken, and in Counters.
	Send(frames [][]byte) int
	// Counters returns the traffic so far.
	Counters() Counters
	// Close frees what the port holds. A second call does nothing.
	Close() error

	// Attach makes the port known to a poller, which then reports id.
	Attach(p *Poller, id int) error
}

// Counters count frames and bytes, since the port was opened.
type Counters struct {
	InPkts, InOctets   uint64
	OutPkts, OutOctets uint64
	// Of those packets, by their destination address; an [Interface] counts them.
	InMulticast, InBroadcast, OutMulticast, OutBroadcast uint64

	InFCS       uint64 // not received: their checksum was wrong; [Links] alone knows
	InLost      uint64 // arrived while the receive ring was full
	InTooLong   uint64 // longer than a slot of the receive ring and no TCP; not delivered
	InCut       uint64 // TCP super-frames, delivered as segments, which alone count as packets
	InChecksums uint64 // delivered after their checksum was completed here
	OutDown     uint64 // not sent: the link was down or gone
	OutTooLong  uint64 // not sent: longer than the link takes
	OutLost     uint64 // refused by the interface's own queue or for other reasons
}

// ErrUnsupported says that the operating system has no such port.
var ErrUnsupported = errors.New("not supported on this operating system")

// Event says which port is ready for what.
type Event struct {
	ID  int  // as given to Poller.Add
	In  bool // frames may have arrived
	Out bool // there may be room again after a short Send
}
