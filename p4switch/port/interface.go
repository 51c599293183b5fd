package port

// InterfaceOptions set up a port on a network interface. The zero value is
// usable.
type InterfaceOptions struct {
	// MaxFrame is the longest frame received, in bytes with VLAN tags. 0: computed from the interface's MTU.
	MaxFrame int
	// Slots is the size of the receive ring, in frames. 0: what fits into
	// 4 MiB, but 256 to 2048.
	Slots int
	// SendBuffer limits the frames that wait in the interface's own queue behind a slow link, in bytes of kernel
	// memory; one frame is always accepted. 0: 64 KiB.
	SendBuffer int
	// HoldUDP is UDP ports for which the kernel, which also sees the packets, must not send ICMP "port unreachable",
	// because the program reads them from the wire.
	HoldUDP []uint16
	// Sent makes the port also receive frames that other programs send by the interface. [Interface.Outgoing]
	// distinguishes them.
	Sent bool
	// Owner names who opens the interface, such as "host h0". If another process has opened it under the same name,
	// OpenInterface fails, as both would answer each packet. Empty: not checked.
	Owner string
}

// InterfaceOf returns the [Interface] of a port that may be captured or dumped; nil if it has none.
func InterfaceOf(p Port) *Interface {
	switch p := p.(type) {
	case *Interface:
		return p
	case *Captured:
		return InterfaceOf(p.Port)
	case *Dumped:
		return InterfaceOf(p.Port)
	}
	return nil
}

func (o InterfaceOptions) withDefaults(mtu int) InterfaceOptions {
	if o.MaxFrame <= 0 {
		o.MaxFrame = max(mtu, 1500) + 14 + 2*4
	}
	if o.Slots <= 0 {
		o.Slots = min(max(4<<20/(o.MaxFrame+64), 256), 2048)
	}
	if o.SendBuffer <= 0 {
		o.SendBuffer = 64 << 10
	}
	return o
}
