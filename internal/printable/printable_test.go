package printable

import (
	"fmt"
	"strings"
	"testing"
)

func TestWriter(t *testing.T) {
	var b strings.Builder
	n, err := fmt.Fprint(Writer(&b), "tor0\tup, 5 µs\n\x1b[2J\x9b\r\xff\n")
	if want := "tor0\tup, 5 µs\n\uFFFD[2J\uFFFD\uFFFD\uFFFD\n"; b.String() != want || n != 23 || err != nil {
		t.Errorf("%q, %d, %v; want %q", b.String(), n, err, want)
	}
}
