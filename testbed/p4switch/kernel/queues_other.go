//go:build !linux

package kernel

import "errors"

// Queues are Linux's.
type Queues struct{}

// OpenQueues fails.
func OpenQueues() (*Queues, error) { return nil, errors.ErrUnsupported }

// Read fails.
func (*Queues) Read() (map[uint32]Queue, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Queues) Close() {}
