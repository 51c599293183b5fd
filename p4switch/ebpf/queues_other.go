//go:build !linux

package ebpf

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Queues reads the tc queues of interfaces, which only Linux has.
type Queues struct{}

// OpenQueues returns an error: it needs Linux.
func OpenQueues() (*Queues, error) { return nil, errors.ErrUnsupported }

// Read returns an error: it needs Linux.
func (*Queues) Read() (map[uint32]Queue, error) { return nil, errors.ErrUnsupported }

// Counters returns an error: it needs Linux.
func (*Queues) Counters(int) (port.Counters, error) { return port.Counters{}, errors.ErrUnsupported }

// Close does nothing.
func (*Queues) Close() {}
