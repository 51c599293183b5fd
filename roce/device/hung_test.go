//go:build linux

package device

import (
	"bytes"
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
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// hungFile mounts a FUSE file system of one file, of 4 MiB of zeros, and opens the file. Reads and writes of it wait
// until it is released.
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

// serveHung answers the kernel's requests, those to read and write only when released is closed.
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
		case 15, 16: // READ, WRITE
			out := make([]byte, 8)
			if ne.PutUint32(out, ne.Uint32(b[40+16:])); ne.Uint32(b[4:]) == 15 {
				out = make([]byte, ne.Uint32(out))
			}
			go func() {
				<-released
				reply(unique, 0, out)
			}()
		case 2, 36: // FORGET, INTERRUPT: have no answer
		default:
			reply(unique, int32(unix.ENOSYS), nil)
		}
	}
}

// TestHungMemory: a program's memory is of a file system that does not answer. Whatever is to be read from there or
// written there, another program's transfers pass meanwhile, and the first one's when the file system answers.
func TestHungMemory(t *testing.T) {
	const id = 1
	part := func(p *program, n uint32) []sge { return []sge{{length: n, lkey: p.key}} }
	for _, c := range []struct {
		name string
		hung int // the side whose memory it is
		ud   bool
		do   func(from, to *program)
	}{
		{"send", 0, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrWrite, rkey: to.key, sges: part(from, 64<<10)})
		}},
		{"write", 1, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrWrite, rkey: to.key, sges: part(from, 64<<10)})
		}},
		{"long write", 1, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrWrite, rkey: to.key, sges: part(from, 3<<20)})
		}},
		{"receive", 1, false, func(from, to *program) {
			to.recv(2, part(to, 64<<10)...)
			from.send(sendWR{id: id, opcode: wrSend, sges: part(from, 64<<10)})
		}},
		{"read", 1, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrRead, rkey: to.key, sges: part(from, 64<<10)})
		}},
		{"read into", 0, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrRead, rkey: to.key, sges: part(from, 64<<10)})
		}},
		{"atomic", 1, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrFetchAdd, rkey: to.key, a: 1, sges: part(from, 8)})
		}},
		{"atomic's result", 0, false, func(from, to *program) {
			from.send(sendWR{id: id, opcode: wrFetchAdd, rkey: to.key, a: 1, sges: part(from, 8)})
		}},
		{"datagram", 0, true, func(from, to *program) {
			from.q.sendDatagram(from.w.now, &sendRequest{
				id: id, opcode: wrSend, flags: sendSignaled, sges: part(from, 1000), udAddr: from.w.nics[1].addr, udQPN: to.q.number,
			}, true)
		}},
		{"datagram received", 1, true, func(from, to *program) {
			to.recv(id, part(to, 2000)...)
			from.q.sendDatagram(from.w.now, &sendRequest{
				id: id, opcode: wrSend, sges: part(from, 1000), udAddr: from.w.nics[1].addr, udQPN: to.q.number,
			}, true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fd, release := hungFile(t)
			w := newWire(t)
			for _, n := range w.nics {
				end, err := n.accessInGoroutines()
				if err != nil {
					t.Fatal(err)
				}
				defer end()
			}
			var p [2][2]*program // by pair, side
			for i := range p {
				p[i][1] = w.program(1, nil, 7)
				p[i][0] = w.program(0, p[i][1], 7)
				p[i][1].connect(p[i][0], 1, 7)
				p[i][0].connect(p[i][1], 0, 7)
			}
			if c.ud {
				for _, x := range p[0] {
					x.q = x.c.qps[x.call(opCreateQP, uint64(x.h[0]), qptUD, uint64(x.h[1]), uint64(x.h[1]), 0, 64, 64, 4, 4, 64, 0, 9)]
					x.q.state = uverbs.QPSRTS
				}
			}
			hung := p[0][c.hung].c
			hung.memory.fd, hung.lendsFiles = fd, true
			within := func(what string, f func() bool) {
				t.Helper()
				for until := time.Now().Add(20 * time.Second); !f(); {
					if time.Now().After(until) {
						t.Fatal(what)
					}
					w.run(5 * fabric.Millisecond)
				}
			}
			c.do(p[0][0], p[0][1])
			for id := range uint64(5) {
				p[1][0].send(sendWR{id: id, opcode: wrWrite, rkey: p[1][1].key, sges: part(p[1][0], 64<<10)})
				within("another program's transfer does not pass", func() bool { return len(p[1][0].poll()) > 0 })
			}
			w.run(3 * sessionTimeout)
			asker := p[0][0]
			if c.ud {
				asker = p[0][c.hung]
			}
			if got := asker.poll(); len(got) > 0 {
				t.Fatalf("the transfer is complete: %+v", got)
			}
			release()
			var got []completion
			within("the transfer does not pass, though the file system answers", func() bool { got = asker.poll(); return len(got) > 0 })
			if got[0].id != id || got[0].status != wcSuccess {
				t.Errorf("completion %+v, want request %d with success", got[0], id)
			}
			if kept := hung.accesses.kept; kept != 0 {
				t.Errorf("%d bytes are kept when all is sent", kept)
			}
		})
	}
}

// TestRemappedMemory: a program maps a file over memory that it has registered. From then on its memory is read and
// written aside, packets of a message under way too, and the message arrives whole.
func TestRemappedMemory(t *testing.T) {
	const size = 1 << 20
	w := newWire(t)
	end, err := w.nics[0].accessInGoroutines()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b) //nolint:errcheck // the test ends
	at := uint64(uintptr(unsafe.Pointer(&b[0])))
	to := w.program(1, nil, 7)
	from := w.program(0, to, 7)
	to.connect(from, 1, 7)
	from.connect(to, 0, 7)
	c := from.c
	if c.memory.fd, err = unix.Open("/proc/self/mem", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	key := from.call(opRegMR, uint64(from.h[0]), at, size, 15, at)
	c.mapped = openMapped(int32(os.Getpid()))
	write := func() {
		from.send(sendWR{id: 1, opcode: wrWrite, rkey: to.key, sges: []sge{{addr: at, length: size / 2, lkey: key}}})
	}
	write()
	w.run(5 * fabric.Millisecond)
	from.statuses(wcSuccess)
	if c.mapped.maps == nil {
		t.Skip("the kernel does not say what is mapped at a place (it takes Linux 6.11)")
	}
	if c.lendsFiles {
		t.Fatal("memory of no file is accessed aside")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read from now on
	content := bytes.Repeat([]byte("file"), size/4)
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	w.queue = true // the flows of a message wait for their turn, and their bytes are not read yet
	write()
	w.run(2 * fabric.Millisecond)
	if _, _, e := unix.Syscall6(unix.SYS_MMAP, uintptr(at), size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED, f.Fd(), 0); e != 0 {
		t.Fatal(e)
	}
	w.run(2 * mappedCacheTime)
	write() // shows the file
	w.run(2 * fabric.Millisecond)
	if !c.lendsFiles {
		t.Fatal("a file is mapped, and nobody has noticed")
	}
	w.queue = false
	for _, do := range w.waits {
		do()
	}
	var got []completion
	for until := time.Now().Add(20 * time.Second); len(got) < 2 && time.Now().Before(until); got = append(got, from.poll()...) {
		w.run(5 * fabric.Millisecond)
	}
	if len(got) != 2 || got[0].status != wcSuccess || got[1].status != wcSuccess {
		t.Fatalf("completions %+v, want two with success", got)
	}
	if !bytes.Equal(to.memory[:size/2], content[:size/2]) {
		t.Error("what has arrived is not the file's content")
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
