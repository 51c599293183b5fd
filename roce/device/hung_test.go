//go:build linux

package device

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// hungFile mounts a FUSE file system of one file, of 4 MiB of zeros, and opens the file. Reads of it wait until it is
// released.
func hungFile(t *testing.T) (fd int, release func()) {
	t.Helper()
	systemtest.Only(t)
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE: %v", err)
	}
	dir := t.TempDir()
	if err := unix.Mount("hung", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)); err != nil {
		unix.Close(dev) //nolint:errcheck // nothing was written
		t.Skipf("mount: %v (it takes root)", err)
	}
	t.Cleanup(func() {
		unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck // closing the device ends all that waits
		unix.Close(dev)                    //nolint:errcheck // nothing is lost
	})
	released := make(chan struct{})
	go serveHung(dev, released)
	if fd, err = unix.Open(filepath.Join(dir, "file"), unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() { close(released) })
	// A thread that waits for a file system cannot be killed: a test that hangs must end nevertheless.
	t.Cleanup(release)
	watchdog := time.AfterFunc(time.Minute, release)
	t.Cleanup(func() { watchdog.Stop() })
	return fd, release
}

// serveHung answers the kernel's requests, those to read only when released is closed.
func serveHung(dev int, released <-chan struct{}) {
	ne := binary.NativeEndian
	attr := func(b []byte, node uint64) {
		ne.PutUint64(b, node)
		mode := uint32(unix.S_IFDIR | 0o755)
		if node != 1 {
			mode = unix.S_IFREG | 0o600
			ne.PutUint64(b[8:], 4<<20)
		}
		ne.PutUint32(b[60:], mode)
		ne.PutUint32(b[64:], 1)
	}
	reply := func(unique uint64, code int32, body []byte) {
		b := make([]byte, 16+len(body))
		ne.PutUint32(b, uint32(len(b)))
		ne.PutUint32(b[4:], uint32(-code))
		ne.PutUint64(b[8:], unique)
		copy(b[16:], body)
		unix.Write(dev, b) //nolint:errcheck // the kernel gave it up
	}
	b := make([]byte, 1<<20)
	for {
		n, err := unix.Read(dev, b)
		if err == unix.EINTR || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		node, unique := ne.Uint64(b[16:]), ne.Uint64(b[8:])
		switch ne.Uint32(b[4:]) {
		case 26: // INIT
			out := make([]byte, 24)
			ne.PutUint32(out, 7)
			ne.PutUint32(out[4:], 19)
			ne.PutUint32(out[20:], 4096)
			reply(unique, 0, out)
		case 1: // LOOKUP
			out := make([]byte, 40+88)
			ne.PutUint64(out, 2)
			attr(out[40:], 2)
			reply(unique, 0, out)
		case 3: // GETATTR
			out := make([]byte, 16+88)
			attr(out[16:], node)
			reply(unique, 0, out)
		case 14: // OPEN, without the kernel's cache
			out := make([]byte, 16)
			out[8] = 1
			reply(unique, 0, out)
		case 15: // READ
			size := ne.Uint32(b[40+16:])
			go func() {
				<-released
				reply(unique, 0, make([]byte, size))
			}()
		case 2, 36: // FORGET, INTERRUPT: have no answer
		default:
			reply(unique, int32(unix.ENOSYS), nil)
		}
	}
}

// TestHungMemory: a program sends from memory of a file system that does not answer. Another program's transfers pass
// meanwhile, and the first one's when the file system answers.
func TestHungMemory(t *testing.T) {
	fd, release := hungFile(t)
	w := newWire(t)
	end, err := w.nics[0].fetchAside()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	var p [2][2]*program // by pair, side
	for i := range p {
		p[i][1] = w.program(1, nil, 7)
		p[i][0] = w.program(0, p[i][1], 7)
		p[i][1].connect(p[i][0], 1, 7)
		p[i][0].connect(p[i][1], 0, 7)
	}
	hung := p[0][0].c
	hung.memory.fd = fd
	hung.n.regions[p[0][0].key].file = true
	hung.fileRegions++
	write := func(i int, id uint64) {
		p[i][0].send(sendWR{id: id, opcode: wrWrite, rkey: p[i][1].key, sges: []sge{{length: 64 << 10, lkey: p[i][0].key}}})
	}
	within := func(what string, f func() bool) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); !f(); {
			if time.Now().After(until) {
				t.Fatal(what)
			}
			w.run(5 * fabric.Millisecond)
		}
	}
	write(0, 1)
	for id := range uint64(5) {
		write(1, id)
		within("another program's transfer does not pass", func() bool { return len(p[1][0].poll()) > 0 })
	}
	w.run(3 * patience)
	if got := p[0][0].poll(); len(got) > 0 {
		t.Fatalf("the transfer of what was not read is complete: %+v", got)
	}
	release()
	within("the transfer does not pass, though its bytes can be read", func() bool { return len(p[0][0].poll()) > 0 })
	if kept := hung.fetching.kept; kept != 0 {
		t.Errorf("%d bytes are kept when all is sent", kept)
	}
}

// TestMapsFile: memory of files is distinguished from other memory.
func TestMapsFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err == nil {
		err = f.Truncate(8192)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	for _, c := range []struct{ fd, flags int }{{int(f.Fd()), unix.MAP_SHARED}, {int(f.Fd()), unix.MAP_PRIVATE}, {-1, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, {-1, unix.MAP_SHARED | unix.MAP_ANONYMOUS}} {
		b, err := unix.Mmap(c.fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, c.flags)
		if err != nil {
			t.Fatal(err)
		}
		if got := mapsFile(int32(os.Getpid()), uint64(uintptr(unsafe.Pointer(&b[0])))+100, 5000); got != (c.fd >= 0) {
			t.Errorf("descriptor %d, flags %#x: of a file: %v", c.fd, c.flags, got)
		}
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	}
}
