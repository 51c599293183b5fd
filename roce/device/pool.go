//go:build linux

package device

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// sharePool is a resource that all programs share. A process may use at most as much as is free, so the first leaves
// half to others, and two leave a third.
type sharePool struct {
	most, used int
	by         map[uint16]int // process, by its share of turns
}

// take takes one unit for a process, if its share allows it.
func (p *sharePool) take(share uint16) bool {
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

func (p *sharePool) giveBack(share uint16) {
	p.used--
	if p.by[share]--; p.by[share] == 0 {
		delete(p.by, share)
	}
}

// sharePools are what a NIC's programs share. The runtime of this process ends it when it gets no more mappings.
type sharePools struct {
	mappings    sharePool // of rings: half of what the system lets a process have
	descriptors sharePool // of completion channels: half likewise
	regions     sharePool
	windows     sharePool // keys have room for eight times as many
	stages      sharePool // of what came out of turn: 256 MiB
}

func newPools() sharePools {
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
	return sharePools{sharePool{most: mappings}, sharePool{most: descriptors}, sharePool{most: 1 << 20}, sharePool{most: 1 << 20}, sharePool{most: maxStages}}
}
