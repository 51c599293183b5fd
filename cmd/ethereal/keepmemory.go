package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	memoryLook  = time.Second
	limitLooks  = 10       // so many looks, and the control group is read again
	calmBytes   = 8 << 20  // a process that allocates less between looks is calm
	spentBytes  = 64 << 20 // allocated since memory was given back: a collection is worth its time
	collections = 2        // what is in a sync.Pool outlives one
	limitShare  = 0.9      // of a control group's memory, for the Go runtime
	leastLimit  = 64 << 20 // bytes; a smaller group is not followed
)

// keepMemory gives memory back to the system once a busy spell is over, until ctx ends:
// the runtime would collect within two minutes, and keep half of what it needed at the
// worst. It follows the limit of the control groups around the process, so that the
// collector works harder before the kernel ends the process, unless GOMEMLIMIT is set.
func keepMemory(ctx context.Context) error {
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	last, given, due := uint64(0), uint64(0), 0
	for n := 0; ; n++ {
		if n%limitLooks == 0 && os.Getenv("GOMEMLIMIT") == "" {
			if limit := limitIn(os.DirFS("/")); limit >= leastLimit {
				debug.SetMemoryLimit(int64(limitShare * float64(limit)))
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		metrics.Read(sample)
		now := sample[0].Value.Uint64()
		if now-given > spentBytes {
			given, due = now, collections
		}
		if due > 0 && now-last < calmBytes {
			debug.FreeOSMemory()
			due--
		}
		last = now
	}
}
