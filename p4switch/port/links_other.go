//go:build !linux

package port

import "fmt"

// Links follows the state of network interfaces; here there are none.
type Links struct{}

// OpenLinks fails: netlink is Linux's.
func OpenLinks() (*Links, error) { return nil, fmt.Errorf("port: netlink: %w", ErrUnsupported) }

// Attach does nothing.
func (l *Links) Attach(*Poller, int) error { return nil }

// List returns no interfaces.
func (l *Links) List() ([]Link, error) { return nil, nil }

// Read finds no changes.
func (l *Links) Read(func(Link)) error { return nil }

// SetUp fails with [ErrUnsupported].
func (l *Links) SetUp(int, bool) error { return ErrUnsupported }

// Counters fails with [ErrUnsupported].
func (l *Links) Counters(int) (Counters, error) { return Counters{}, ErrUnsupported }

// Close does nothing.
func (l *Links) Close() error { return nil }
