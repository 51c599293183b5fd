package sim

import (
	"testing"
	"unsafe"
)

const (
	cacheLine  = 64 // bytes
	packetHead = 56 // bytes of a packet before its data
)

// What is touched together lies together: see the comments of packet and direction.
func TestLayout(t *testing.T) {
	var p packet
	var d direction
	for _, c := range []struct {
		what string
		got  uintptr
		want uintptr
	}{
		{"a packet's bytes", unsafe.Sizeof(p), 4 * cacheLine},
		{"a packet's bytes before its data", unsafe.Offsetof(p.data), packetHead},
		{"a direction's bytes", unsafe.Sizeof(d), 5 * cacheLine},
		{"where a direction's queues begin", unsafe.Offsetof(d.queues), cacheLine},
		{"where its counters begin", unsafe.Offsetof(d.counters), 3 * cacheLine},
		{"an arrival's bytes", unsafe.Sizeof(arrival{}), cacheLine / 2},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	control := unsafe.Offsetof(d.queues) + unsafe.Offsetof(d.queues.classes) + 2*unsafe.Sizeof(d.queues.classes[0])
	if control > 2*cacheLine {
		t.Errorf("the control queue ends at byte %d, beyond the second cache line", control)
	}
}
