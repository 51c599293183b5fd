//go:build linux

package device

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// pool is what all programs share. A process may have at most as much of it as is free, so that it leaves half to
// others, and two leave a third.
type pool struct {
	most, used int
	by         map[uint16]int // process, by its share of turns
}

// take takes one for a process, if it may have another.
func (p *pool) take(share uint16) bool {
	if p.by[share] >= p.most-p.used {
		return false
	}
	if p.by == nil {
		p.by = map[uint16]int{}
	}
	p.used++
	p.by[share]++
	return true
}

func (p *pool) give(share uint16) {
	p.used--
	if p.by[share]--; p.by[share] == 0 {
		delete(p.by, share)
	}
}

// pools are what a NIC's programs share. The runtime of this process ends it when it gets no more mappings.
type pools struct {
	mappings    pool // of rings: half of what the system lets a process have
	descriptors pool // of completion channels: half likewise
	regions     pool
	windows     pool // keys have room for eight times as many
}

func newPools() pools {
	const atLeast = 512
	mappings, descriptors := 65530/2, atLeast // the system's default
	if b, err := os.ReadFile("/proc/sys/vm/max_map_count"); err == nil {
		if n, err := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil {
			mappings = n / 2
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil {
		descriptors = int(min(limit.Cur, 1<<20) / 2)
	}
	return pools{pool{most: mappings}, pool{most: descriptors}, pool{most: 1 << 20}, pool{most: 1 << 20}}
}
