//go:build linux

package device

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// memoryMap is the memory mappings of a program's process, from the kernel. Linux 6.11 and later answer for one
// address.
type memoryMap struct {
	maps     *os.File // /proc/PID/maps; nil: the kernel does not say
	from, to uint64   // no file is mapped there
	until    fabric.Time
}

// mappedCacheTime is how long an answer of the kernel's is believed.
const mappedCacheTime = 10 * fabric.Millisecond

// openMapped opens the mappings of a process, if it can.
func openMapped(pid int32) memoryMap {
	if pid == 0 {
		return memoryMap{}
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return memoryMap{}
	}
	return memoryMap{maps: f}
}

// procmapQuery is struct procmap_query.
type procmapQuery struct {
	size, flags, addr, start, end, vmaFlags, page, offset, inode uint64
	major, minor, nameSize, buildIDSize                          uint32
	name, buildID                                                uint64
}

const (
	procmapQueryCall = 0xc0686611 // number of the ioctl PROCMAP_QUERY of /proc/PID/maps
	procmapNextFile  = 0x10 | 0x20
)

// mapsFile reports whether memory is a file's, of which the program was not asked when it registered it: it may have
// mapped something else there since. It is asked at most every [mappedCacheTime].
func (m *memoryMap) mapsFile(now fabric.Time, addr, n uint64) bool {
	if n == 0 || m.maps == nil || now < m.until && m.from <= addr && addr+n <= m.to {
		return false
	}
	var name [256]byte
	var pin runtime.Pinner // the kernel writes there: it must not be on a stack that moves
	pin.Pin(&name)
	defer pin.Unpin()
	for at := addr; ; {
		clear(name[:])
		q := procmapQuery{flags: procmapNextFile, addr: at, nameSize: uint32(len(name)), name: uint64(uintptr(unsafe.Pointer(&name[0])))}
		q.size = uint64(unsafe.Sizeof(q))
		_, _, e := unix.Syscall(unix.SYS_IOCTL, m.maps.Fd(), procmapQueryCall, uintptr(unsafe.Pointer(&q)))
		switch {
		case e == unix.ENOENT: // no file beyond
			q.start = 1<<64 - 1
		case e == unix.ENAMETOOLONG:
			return true
		case e == unix.EINTR:
			continue
		case e != 0: // the process has ended, or the kernel is older
			m.close()
			return false
		}
		if q.start >= addr+n {
			m.from, m.to, m.until = addr, q.start, now+mappedCacheTime
			return false
		}
		if ofFile(string(name[:max(0, bytes.IndexByte(name[:], 0))])) {
			return true
		}
		at = q.end
	}
}

func (m *memoryMap) close() {
	if m.maps != nil {
		m.maps.Close() //nolint:errcheck // only read
		m.maps = nil
	}
}

// ofFile reports whether a mapping's name is of a file on no memory file system that the kernel mounts itself.
func ofFile(name string) bool {
	for _, memory := range []string{"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "anon_inode:"} {
		if strings.HasPrefix(name, memory) {
			return false
		}
	}
	return true
}

// mapsFile reports whether a process has mapped a file, of no memory file system that the kernel mounts itself,
// anywhere in its memory from addr on. Of a process that cannot be looked at, it reports false.
func mapsFile(pid int32, addr, n uint64) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to, offset, inode uint64
		var mode, device, name string
		fmt.Sscanf(lines.Text(), "%x-%x %s %x %s %d %s", &from, &to, &mode, &offset, &device, &inode, &name) //nolint:errcheck // a name may be missing
		if from < addr+n && addr < to && inode != 0 && ofFile(name) {
			return true
		}
	}
	return false
}
