//go:build linux

package device

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestPort: each program gets an event when the port changes its state, and only then, and can ask for the state.
func TestPort(t *testing.T) {
	w, p := pairOf(t, 7)
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	unix.Close(p[0].c.async)
	p[0].c.async = fds[1]
	for _, up := range []bool{true, false, false, true} {
		w.nics[0].setPort(up)
		if got := p[0].call(opQueryPort); (got == 1) != up {
			t.Errorf("state %d, up %v", got, up)
		}
	}
	var got []uint32
	var b [asyncSize]byte
	for {
		if n, _ := unix.Read(fds[0], b[:]); n != asyncSize {
			break
		}
		got = append(got, native.Uint32(b[8:]))
	}
	if len(got) != 2 || got[0] != eventPortErr || got[1] != eventPortActive {
		t.Errorf("events %v, want %d, %d", got, eventPortErr, eventPortActive)
	}
}
