//go:build !linux

package routes

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
)

// Mirror is Linux's.
type Mirror struct{}

// Open fails.
func Open(Config) (*Mirror, error) { return nil, errors.ErrUnsupported }

// Use does nothing.
func (*Mirror) Use(*interp.Switch) {}

// SetPort does nothing.
func (*Mirror) SetPort(uint32, bool) {}

// Sync fails.
func (*Mirror) Sync() error { return errors.ErrUnsupported }

// Routes returns 0.
func (*Mirror) Routes() int { return 0 }

// Close does nothing.
func (*Mirror) Close() error { return nil }
