//go:build !linux

package ebpf

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Queues are Linux's.
type Queues struct{}

// OpenQueues fails.
func OpenQueues() (*Queues, error) { return nil, errors.ErrUnsupported }

// Read fails.
func (*Queues) Read() (map[uint32]Queue, error) { return nil, errors.ErrUnsupported }

// Counters fails.
func (*Queues) Counters(int) (port.Counters, error) { return port.Counters{}, errors.ErrUnsupported }

// Close does nothing.
func (*Queues) Close() {}
