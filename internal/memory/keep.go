package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	memoryLook  = time.Second
	limitLooks  = 10       // looks between two readings of the control group
	calmBytes   = 8 << 20  // a process that allocates less between looks is calm
	spentBytes  = 64 << 20 // allocated since memory was returned: a collection pays
	collections = 2        // an object in a sync.Pool survives one collection
	limitShare  = 0.9      // of a control group's memory, for the Go runtime
	leastLimit  = 64 << 20 // bytes; a smaller group is not followed
)

// Keep returns memory to the system when a busy period is over, until ctx ends. (The runtime would collect within
// two minutes and keep half of the largest need.) It sets the runtime's limit to the smaller of GOMEMLIMIT and
// limitShare of the limits of the control groups around the process, so that the collector works harder before the
// kernel kills the process.
func Keep(ctx context.Context) error {
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	last, given, due := uint64(0), uint64(0), 0
	asked := debug.SetMemoryLimit(-1) // GOMEMLIMIT
	for n := 0; ; n++ {
		if n%limitLooks == 0 {
			debug.SetMemoryLimit(memoryLimit(asked, memlimit.FromCgroup))
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

// memoryLimit returns the runtime's limit, in bytes: the asked one, or less in a control group.
func memoryLimit(asked int64, group memlimit.Provider) int64 {
	limit, err := group()
	if err != nil || limit < leastLimit || float64(limit)*limitShare >= float64(asked) {
		return asked
	}
	return int64(limitShare * float64(limit))
}
