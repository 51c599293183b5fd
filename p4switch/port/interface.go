package port

// InterfaceOptions set up a port on a network interface. The zero value is
// usable.
type InterfaceOptions struct {
	// MaxFrame is the longest frame received, in bytes with its VLAN tags.
	// 0: what the interface's MTU asks for.
	MaxFrame int
	// Slots is the size of the receive ring, in frames. 0: what fits into
	// 4 MiB, but 256 to 2048.
	Slots int
	// SendBuffer bounds what waits in the interface's own queue behind a slow
	// link, in bytes of kernel memory; one frame fits in any case. 0: 64 KiB.
	SendBuffer int
	// HoldUDP are UDP ports of packets that the interface's owner reads from the
	// wire: the kernel, which sees them too, does not answer that nobody listens.
	HoldUDP []uint16
	// Sent has the port receive what leaves by the interface, too, but for what it
	// sends itself. [Interface.Outgoing] distinguishes them.
	Sent bool
	// Owner is what opens the interface, such as "host h0". If another process has opened it as the same, it is refused,
	// as both would answer each packet. Empty: others are not looked for.
	Owner string
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
