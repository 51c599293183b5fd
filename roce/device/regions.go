//go:build linux

package device

import (
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// memoryRegion is registered memory.
type memoryRegion struct {
	c      *client
	pd     *protectionDomain
	addr   uint64
	length uint64
	iova   uint64
	access uint64

	windows int // bound to it
}

// offsetOf returns where in the program's memory an address of the region is.
func (r *memoryRegion) offsetOf(addr, n, access uint64) (uint64, bool) {
	if addr < r.iova || addr-r.iova > r.length || n > r.length-(addr-r.iova) || r.access&access != access {
		return 0, false
	}
	return r.addr + (addr - r.iova), true
}

// translateSGEs turns sges into places in the program's memory, if they are registered.
func (c *client) translateSGEs(pd *protectionDomain, sges []sge, access uint64) ([]sge, bool) {
	out := make([]sge, 0, len(sges))
	for _, s := range sges {
		if s.length == 0 {
			continue
		}
		r := c.n.regions[s.lkey]
		if r == nil || r.c != c || r.pd != pd {
			return nil, false
		}
		at, ok := r.offsetOf(s.addr, uint64(s.length), access)
		if !ok {
			return nil, false
		}
		out = append(out, sge{addr: at, length: s.length})
	}
	return out, true
}

func (c *client) register(a *[callArgs]uint64) (uint64, error) {
	pd := c.domains[uint32(a[0])]
	r := &memoryRegion{c: c, pd: pd, addr: a[1], length: a[2], access: a[3], iova: a[4]}
	if pd == nil {
		return 0, unix.EINVAL
	}
	if err := r.checkMapping(); err != nil {
		return 0, err
	}
	if len(c.regions) >= maxRegions || !c.n.pools.regions.take(c.share) {
		return 0, unix.ENOMEM
	}
	key := newNumber(c.n.regions, 1<<31-1)
	c.n.regions[key], c.regions[key] = r, struct{}{}
	pd.users++
	return uint64(key), nil
}

// checkMapping checks a region's place and access, and sets what follows from them.
func (r *memoryRegion) checkMapping() error {
	if r.access&uverbs.AccessZeroBased != 0 {
		r.iova = 0
	}
	remote := uint64(uverbs.AccessRemoteWrite | uverbs.AccessRemoteAtomic)
	if r.length > 1<<40 || r.addr+r.length < r.addr || r.iova+r.length < r.iova ||
		r.access&remote != 0 && r.access&uverbs.AccessLocalWrite == 0 {
		return unix.EINVAL
	}
	return nil
}

// look checks memory that a program registers: whether it is mapped, and whether it is mapped from a file. This takes
// as long as reading it, so the driver's goroutine does not call it.
func (m programMemory) look(in *programCall, pid int32) (file bool, err error) {
	addr, n := in.arg[1], in.arg[2]
	if callOp(in.word) == opReregMR {
		if in.arg[1]&reregTranslation == 0 {
			return false, nil
		}
		addr, n = in.arg[3], in.arg[4]
	}
	if n == 0 || addr+n < addr {
		return false, nil // there is nothing to read, or it is refused later
	}
	var b [1]byte
	if m.read(b[:], addr) != nil || m.read(b[:], addr+n-1) != nil {
		return false, unix.EFAULT
	}
	return mapsFile(pid, addr, n), nil
}

// reregister changes a region, which keeps its key. After an error it is as it was.
func (c *client) reregister(a *[callArgs]uint64) error {
	r, pd := c.n.regions[uint32(a[0])], c.domains[uint32(a[2])]
	switch {
	case r == nil || r.c != c:
		return unix.ENOENT
	case r.windows > 0:
		return unix.EBUSY
	}
	is := *r
	if a[1]&reregTranslation != 0 {
		is.addr, is.length, is.iova = a[3], a[4], a[3]
	}
	if a[1]&reregAccess != 0 {
		is.access = a[5]
	}
	if a[1]&reregPD != 0 {
		if is.pd = pd; pd == nil {
			return unix.EINVAL
		}
	}
	if err := is.checkMapping(); err != nil {
		return err
	}
	r.pd.users--
	is.pd.users++
	*r = is
	return nil
}

// deregister ends a memory region that no window is bound to.
func (c *client) deregister(key uint32) error {
	r := c.n.regions[key]
	switch {
	case r == nil || r.c != c:
		return unix.ENOENT
	case r.windows > 0:
		return unix.EBUSY
	}
	delete(c.n.regions, key)
	delete(c.regions, key)
	c.n.pools.regions.giveBack(c.share)
	r.pd.users--
	return nil
}
