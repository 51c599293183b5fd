//go:build linux

package device

import (
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// region is registered memory.
type region struct {
	c      *client
	pd     *domain
	addr   uint64
	length uint64
	iova   uint64
	access uint64
	file   bool // it has bytes of a mapped file

	windows int // bound to it
}

// find returns where in the program's memory an address of the region is.
func (r *region) find(addr, n, access uint64) (uint64, bool) {
	if addr < r.iova || addr-r.iova > r.length || n > r.length-(addr-r.iova) || r.access&access != access {
		return 0, false
	}
	return r.addr + (addr - r.iova), true
}

// translate turns sges into places in the program's memory, if they are registered.
func (c *client) translate(pd *domain, sges []sge, access uint64) ([]sge, bool) {
	out := make([]sge, 0, len(sges))
	for _, s := range sges {
		if s.length == 0 {
			continue
		}
		r := c.n.regions[s.lkey]
		if r == nil || r.c != c || r.pd != pd {
			return nil, false
		}
		at, ok := r.find(s.addr, uint64(s.length), access)
		if !ok {
			return nil, false
		}
		out = append(out, sge{addr: at, length: s.length})
	}
	return out, true
}

func (c *client) register(a *[callArgs]uint64) (uint64, error) {
	pd := c.domains[uint32(a[0])]
	r := &region{c: c, pd: pd, addr: a[1], length: a[2], access: a[3], iova: a[4], file: c.registersFile}
	if pd == nil {
		return 0, unix.EINVAL
	}
	if err := r.check(); err != nil {
		return 0, err
	}
	if len(c.regions) >= maxRegions || !c.n.pools.regions.take(c.share) {
		return 0, unix.ENOMEM
	}
	key := newNumber(c.n.regions, 1<<31-1)
	c.n.regions[key], c.regions[key] = r, struct{}{}
	c.countFiles(r, 1)
	pd.users++
	return uint64(key), nil
}

// check checks a region's place and access, and sets what follows from them.
func (r *region) check() error {
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

// countFiles counts a region if it is of files.
func (c *client) countFiles(r *region, by int) {
	if r.file {
		c.fileRegions += by
	}
}

// look looks at memory that a program registers: whether it has bytes of files, and whether it is there. That takes as
// long as a read of it: it is not for the driver's goroutine.
func (m programMemory) look(in *call, pid int32) (file bool, err error) {
	addr, n := in.arg[1], in.arg[2]
	if op(in.word) == opReregMR {
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
		is.addr, is.length, is.iova, is.file = a[3], a[4], a[3], c.registersFile
	}
	if a[1]&reregAccess != 0 {
		is.access = a[5]
	}
	if a[1]&reregPD != 0 {
		if is.pd = pd; pd == nil {
			return unix.EINVAL
		}
	}
	if err := is.check(); err != nil {
		return err
	}
	r.pd.users--
	is.pd.users++
	c.countFiles(r, -1)
	*r = is
	c.countFiles(r, 1)
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
	c.countFiles(r, -1)
	delete(c.n.regions, key)
	delete(c.regions, key)
	c.n.pools.regions.give(c.share)
	r.pd.users--
	return nil
}
