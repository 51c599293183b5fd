package port

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller waits until ports can receive or send. It is edge-triggered: a ready port is reported again only after Receive
// found it empty, or Send found it full.
type Poller struct {
	epoll, event int
	buf          [64]unix.EpollEvent
	awake        atomic.Bool // a wake-up is pending
	noPwait2     bool
	raw          bool // the Go scheduler need not know of waits
	ts           unix.Timespec
	ending       sync.Mutex // Wake and Close

	mu    sync.Mutex
	soft  []Event     // of ports without a file descriptor
	users []tokenUser // by token
}

// tokenUser is the callback and state of a token in the epoll set.
type tokenUser struct {
	id     int
	event  func(events uint32) // consulted first, may be nil
	report bool
}

const (
	wakeToken  = -1
	watchToken = -2
)

// Watch makes every write to a file descriptor (an eventfd) end a Wait, until Unwatch. Both are safe for concurrent
// use.
func (p *Poller) Watch(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: watchToken}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("port: epoll: %w", err)
	}
	return nil
}

// Unwatch ends what Watch began, before the descriptor is closed.
func (p *Poller) Unwatch(fd int) {
	unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil) //nolint:errcheck // it was watched
}

// NewPoller makes a poller without ports.
func NewPoller() (*Poller, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("port: epoll: %w", err)
	}
	ev, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep) //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("port: eventfd: %w", err)
	}
	p := &Poller{epoll: ep, event: ev, raw: runtime.GOMAXPROCS(0) > 1}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, ev, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: wakeToken}); err != nil {
		p.Close() //nolint:errcheck // the first error is reported
		return nil, fmt.Errorf("port: epoll: %w", err)
	}
	return p, nil
}

// Add adds a port. Its events have this id.
func (p *Poller) Add(port Port, id int) error { return port.Attach(p, id) }

// watch adds a file descriptor. With oneShot it is not watched until rearm.
func (p *Poller) watch(fd, id int, events uint32, oneShot bool, f func(uint32)) (token int32, err error) {
	token = int32(len(p.users))
	p.users = append(p.users, tokenUser{id: id, event: f, report: true})
	if oneShot {
		events = 0
	}
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: token}); err != nil {
		return 0, fmt.Errorf("port: epoll: %w", err)
	}
	return token, nil
}

// rearm enables one more report of events for a descriptor.
func (p *Poller) rearm(fd int, token int32, events uint32) error {
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events | unix.EPOLLONESHOT, Fd: token})
}

// Notify queues an event of a port without a file descriptor. It is safe for concurrent use.
func (p *Poller) Notify(ev Event) {
	p.mu.Lock()
	p.soft = mergeEvent(p.soft, ev)
	p.mu.Unlock()
	p.Wake()
}

// Wake ends the current Wait, or the next one. It is safe for concurrent use.
func (p *Poller) Wake() {
	if p.awake.Swap(true) {
		return
	}
	p.ending.Lock()
	defer p.ending.Unlock()
	if p.event < 0 {
		return // the wake-up came late
	}
	one := [8]byte{1}
	unix.Write(p.event, one[:]) //nolint:errcheck // a full counter wakes too
}

// Wait waits until a port is ready, Wake is called, or the timeout is over (negative: never), and appends the events to
// out. It sometimes returns without any.
func (p *Poller) Wait(timeout time.Duration, out []Event) ([]Event, error) {
	n, err := p.wait(timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return out, fmt.Errorf("port: epoll: %w", err)
	}
	for i := range max(n, 0) {
		ev := &p.buf[i]
		if ev.Fd == wakeToken {
			var b [8]byte
			unix.Read(p.event, b[:]) //nolint:errcheck // empty is fine
			p.awake.Store(false)
			p.mu.Lock()
			out = append(out, p.soft...)
			p.soft = p.soft[:0]
			p.mu.Unlock()
			continue
		}
		if ev.Fd == watchToken {
			continue
		}
		u := &p.users[ev.Fd]
		if u.event != nil {
			u.event(ev.Events)
		}
		out = append(out, Event{ID: u.id, In: ev.Events&^unix.EPOLLOUT != 0, Out: ev.Events&(unix.EPOLLOUT|unix.EPOLLERR) != 0})
	}
	return out, nil
}

// rawWait is how long to wait without the Go scheduler's knowledge. From 10 ms on its monitor would signal the thread.
const rawWait = 5 * time.Millisecond

// wait waits for events. It blocks without notifying the Go scheduler if other processors can run goroutines.
func (p *Poller) wait(timeout time.Duration) (int, error) {
	if !p.raw {
		return p.waitBy(unix.Syscall6, timeout)
	}
	if timeout >= 0 && timeout <= rawWait {
		return p.waitBy(unix.RawSyscall6, timeout)
	}
	if n, err := p.waitBy(unix.RawSyscall6, rawWait); n != 0 || err != nil {
		return n, err
	}
	if timeout > 0 {
		timeout -= rawWait
	}
	return p.waitBy(unix.Syscall6, timeout)
}

// waitBy waits by one of the ways to call the kernel.
func (p *Poller) waitBy(
	syscall6 func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno), timeout time.Duration,
) (int, error) {
	if timeout > 0 && !p.noPwait2 {
		p.ts = unix.NsecToTimespec(timeout.Nanoseconds())
		n, _, e := syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.buf[0])),
			uintptr(len(p.buf)), uintptr(unsafe.Pointer(&p.ts)), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.ENOSYS {
			return 0, e
		}
		p.noPwait2 = true
	}
	ms := -1
	if timeout >= 0 {
		ms = int((timeout + time.Millisecond - 1) / time.Millisecond)
	}
	n, _, e := syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.epoll), uintptr(unsafe.Pointer(&p.buf[0])),
		uintptr(len(p.buf)), uintptr(ms), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// Pause sleeps for d, without watching ports, as precisely as [LockThread] allows.
func (p *Poller) Pause(d time.Duration) {
	syscall := unix.RawSyscall
	if !p.raw {
		syscall = unix.Syscall
	}
	p.ts = unix.NsecToTimespec(d.Nanoseconds())
	syscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&p.ts)), 0, 0) //nolint:errcheck // a shorter pause is one, too
}

// Pending reports whether Wake was called and Wait has not seen it.
func (p *Poller) Pending() bool { return p.awake.Load() }

// LockThread binds the calling goroutine to its thread, whose timers then are
// precise to a few microseconds, until unlock is called.
func LockThread() (unlock func()) {
	runtime.LockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0)
	}
	return func() {
		if err == nil {
			unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0) //nolint:errcheck // as it was set before
		}
		runtime.UnlockOSThread()
	}
}

// Realtime gives the calling thread a real-time priority, 1 to 99. Threads that it
// starts do not inherit it.
func Realtime(priority int) error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Flags: unix.SCHED_FLAG_RESET_ON_FORK, Priority: uint32(priority),
	}, 0)
}

// Close frees the poller. Its ports stay open.
func (p *Poller) Close() error {
	p.ending.Lock()
	defer p.ending.Unlock()
	if p.epoll < 0 {
		return os.ErrClosed
	}
	err := errors.Join(unix.Close(p.event), unix.Close(p.epoll))
	p.epoll, p.event = -1, -1
	return err
}
