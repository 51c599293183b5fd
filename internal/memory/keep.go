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
	limitLooks  = 10       // so many looks, and the control group is read again
	calmBytes   = 8 << 20  // a process that allocates less between looks is calm
	spentBytes  = 64 << 20 // allocated since memory was given back: a collection is worth its time
	collections = 2        // what is in a sync.Pool outlives one
	limitShare  = 0.9      // of a control group's memory, for the Go runtime
	leastLimit  = 64 << 20 // bytes; a smaller group is not followed
)

// Keep gives memory back to the system once a busy spell is over, until ctx ends:
// the runtime would collect within two minutes, and keep half of what it needed at the
// worst. The runtime's limit is the smaller of GOMEMLIMIT and limitShare of what the control
// groups around the process allow, so that the collector works harder before the kernel ends
// the process.
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

// memoryLimit returns the runtime's limit, in bytes: what was asked for, or less in a control group.
func memoryLimit(asked int64, group memlimit.Provider) int64 {
	limit, err := group()
	if err != nil || limit < leastLimit || float64(limit)*limitShare >= float64(asked) {
		return asked
	}
	return int64(limitShare * float64(limit))
}
