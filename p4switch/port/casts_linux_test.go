package port

import "testing"

func TestCasts(t *testing.T) {
	var c castCounters
	for _, destination := range []string{
		"\x02\x00\x00\x00\x00\x01", "\xff\xff\xff\xff\xff\xff", "\x01\x00\x5e\x00\x00\x01", "\x33\x33\x00\x00\x00\x01", "\xff",
	} {
		c.count([]byte(destination))
	}
	if multi, broad := c.multi.Load(), c.broad.Load(); multi != 2 || broad != 1 {
		t.Errorf("%d multicasts and %d broadcasts, want 2 and 1", multi, broad)
	}
}
