package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	lookInterval      = time.Second
	looksPerLimitRead = 10       // number of looks between two readings of the control group's limit
	calmBytes         = 8 << 20  // a process that allocates fewer bytes between two looks counts as calm
	busyBytes         = 64 << 20 // allocated since memory was returned: a collection pays
	poolCollections   = 2        // an object in a sync.Pool survives one collection
	limitShare        = 0.9      // of a control group's memory, for the Go runtime
	minLimit          = 64 << 20 // bytes; a smaller group is not followed
	gogc              = 400      // GOGC: filling tables takes a fifth less time than with 100
)

// Keep sets the garbage collector, until ctx ends, so that the heap may grow in busy periods, unless GOGC is set, and
// is returned to the system after them. (By default Go would return it within two minutes, and keep half.) It sets Go's
// memory limit to the smaller of GOMEMLIMIT and a share of the control groups' limits, so that the collector works
// harder before the kernel kills the process.
func Keep(ctx context.Context) error {
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(gogc))
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	last, given, due := uint64(0), uint64(0), 0
	asked := debug.SetMemoryLimit(-1) // GOMEMLIMIT
	for n := 0; ; n++ {
		if n%looksPerLimitRead == 0 {
			debug.SetMemoryLimit(memoryLimit(asked, memlimit.FromCgroup))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		metrics.Read(sample)
		now := sample[0].Value.Uint64()
		if now-given > busyBytes {
			given, due = now, poolCollections
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
	if err != nil || limit < minLimit || float64(limit)*limitShare >= float64(asked) {
		return asked
	}
	return int64(limitShare * float64(limit))
}
