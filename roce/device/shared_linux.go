package device

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedMemory is memory that a program has mapped, too. Nothing in it can be trusted: what
// is read is copied first, and checked then.
type sharedMemory struct {
	mem []byte
	fd  int
}

// newShared makes such memory. Its size cannot be changed, by nobody: a smaller one
// would end this process at the next access.
func newShared(size int) (*sharedMemory, error) {
	fd, err := unix.MemfdCreate("ethereal-nic", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("nic: memfd: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	var mem []byte
	if err == nil {
		mem, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("nic: shared memory of %d bytes: %w", size, err)
	}
	return &sharedMemory{mem, fd}, nil
}

// wordAt is a 32-bit word that both sides change.
func (s *sharedMemory) wordAt(at int) *uint32 { return (*uint32)(unsafe.Pointer(&s.mem[at])) }

// passDescriptor returns the descriptor, which is the caller's from now on.
func (s *sharedMemory) passDescriptor() int {
	fd := s.fd
	s.fd = -1
	return fd
}

func (s *sharedMemory) close() {
	unix.Munmap(s.mem) //nolint:errcheck // it was mapped
	if s.fd >= 0 {
		unix.Close(s.fd) //nolint:errcheck // nothing was written
	}
	s.mem = nil
}

// sharedRing is one side of a queue in shared memory. index is this side's own: what the
// program makes of its copy does not matter.
type sharedRing struct {
	s      *sharedMemory
	at     int // of the head
	count  uint32
	stride int
	index  uint32
}

func (r *sharedRing) bytes() int { return ringSize + int(r.count)*r.stride }

func (r *sharedRing) slot(index uint32) []byte {
	from := r.at + ringSize + int(index&(r.count-1))*r.stride
	return r.s.mem[from : from+r.stride]
}

// waiting returns how many entries a consumer finds: none where the producer claims more
// than the ring holds.
func (r *sharedRing) waiting() uint32 {
	head := atomic.LoadUint32(r.s.wordAt(r.at + ringHead))
	if head-r.index > r.count {
		r.index = head
	}
	return head - r.index
}

// take copies the next entry into b. It does not notify the producer: see release.
func (r *sharedRing) take(b []byte) {
	copy(b, r.slot(r.index))
	r.index++
}

// release notifies the producer that n more entries are free.
func (r *sharedRing) release(n uint32) { atomic.AddUint32(r.s.wordAt(r.at+ringTail), n) }

// push adds an entry. It reports false if the consumer has left no room.
func (r *sharedRing) push(c *completion) bool {
	if r.index-atomic.LoadUint32(r.s.wordAt(r.at+ringTail)) >= r.count {
		return false
	}
	c.encode(r.slot(r.index))
	r.index++
	atomic.StoreUint32(r.s.wordAt(r.at+ringHead), r.index)
	return true
}

// movedTo returns a ring of another size with what this one holds from index tail to head, both of which go on. Its
// producer or its consumer is held off meanwhile.
func (r *sharedRing) movedTo(s *sharedMemory, count, tail, head uint32) sharedRing {
	to := sharedRing{s: s, count: count, stride: r.stride, index: r.index}
	for i := tail; i != head; i++ {
		copy(to.slot(i), r.slot(i))
	}
	atomic.StoreUint32(s.wordAt(ringHead), head)
	atomic.StoreUint32(s.wordAt(ringTail), tail)
	atomic.StoreUint32(s.wordAt(ringArmed), r.isArmed())
	return to
}

// arm and disarm set and take back the word by which one side asks for an event.
func (r *sharedRing) arm()            { atomic.StoreUint32(r.s.wordAt(r.at+ringArmed), 1) }
func (r *sharedRing) disarm() uint32  { return atomic.SwapUint32(r.s.wordAt(r.at+ringArmed), 0) }
func (r *sharedRing) isArmed() uint32 { return atomic.LoadUint32(r.s.wordAt(r.at + ringArmed)) }

// programMemory is a program's memory, by its own descriptor of /proc/self/mem: that
// is bound to the memory, whatever becomes of the process's number.
type programMemory struct{ fd int }

// checkMemory reports an error if fd is not a process's memory.
func checkMemory(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("nic: the program's memory: %w", err)
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return fmt.Errorf("nic: the program's memory: the descriptor is not of /proc/self/mem")
	}
	// Other files of that file system do things when this process writes to them.
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || path.Base(name) != "mem" {
		return fmt.Errorf("nic: the program's memory: the descriptor is of %q, not of /proc/self/mem", name)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDWR {
		return fmt.Errorf("nic: the program's memory: the descriptor is not open for reading and writing")
	}
	return nil
}

func (m programMemory) read(b []byte, addr uint64) error {
	return eachPiece(b, addr, func(b []byte, at int64) (int, error) { return unix.Pread(m.fd, b, at) })
}

func (m programMemory) write(b []byte, addr uint64) error {
	return eachPiece(b, addr, func(b []byte, at int64) (int, error) { return unix.Pwrite(m.fd, b, at) })
}

// writeTo writes b to places, from their byte off on.
func (m programMemory) writeTo(places []sge, off uint64, b []byte) error {
	return walkSGEs(places, off, uint64(len(b)), func(addr, n uint64) error {
		err := m.write(b[:n], addr)
		b = b[n:]
		return err
	})
}

func eachPiece(b []byte, addr uint64, do func([]byte, int64) (int, error)) error {
	for len(b) > 0 {
		n, err := do(b, int64(addr))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return fmt.Errorf("nic: %d bytes at %#x of a program: %w", len(b), addr, unix.EFAULT)
		}
		b, addr = b[n:], addr+uint64(n)
	}
	return nil
}
