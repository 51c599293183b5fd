//go:build !linux

package port

import "fmt"

// Interface is a port on a network interface; here there are none.
type Interface struct{ Port }

// OpenInterface fails: AF_PACKET is Linux's.
func OpenInterface(name string, _ InterfaceOptions) (*Interface, error) {
	return nil, fmt.Errorf("port: interface %s: %w", name, ErrUnsupported)
}

// Name returns the interface's name.
func (p *Interface) Name() string { return "" }

// Index returns the interface's index.
func (p *Interface) Index() int { return 0 }

// Move fails.
func (p *Interface) Move(Link) error { return ErrUnsupported }

// OnlyMarked fails.
func (p *Interface) OnlyMarked(uint32) error { return ErrUnsupported }

// Unmarked fails.
func (p *Interface) Unmarked(uint32) error { return ErrUnsupported }

// Outgoing returns false.
func (p *Interface) Outgoing() bool { return false }

// Stamp returns 0.
func (p *Interface) Stamp() int64 { return 0 }
