//go:build linux

package main

import (
	"bytes"
	"io"
	"testing"
)

// TestLineWatchKeepsLittle: a program may write without a line's end for ever.
func TestLineWatchKeepsLittle(t *testing.T) {
	found := false
	l := &lineWatch{w: io.Discard, text: []byte("start"), found: func() { found = true }}
	for range 1000 {
		l.Write(bytes.Repeat([]byte("s"), 1000)) //nolint:errcheck // io.Discard takes all
		if len(l.line) >= len(l.text) {
			t.Fatalf("%d bytes are kept", len(l.line))
		}
	}
	if l.Write([]byte("tart")); !found { //nolint:errcheck // likewise
		t.Error("the text is not found")
	}
}

func TestLineWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrote []string
		at    int // the write that finds the text; 0: none
	}{
		{"whole line", []string{"a\n", "start\n", "start\n"}, 2},
		{"in parts", []string{"a st", "ar", "t b\n"}, 3},
		{"not over two lines", []string{"st", "\nart\n"}, 0},
		{"last line without end", []string{"x\ny\nstart"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, want bytes.Buffer
			write, at := 0, 0
			l := &lineWatch{w: &out, text: []byte("start"), found: func() {
				if at != 0 {
					t.Error("found twice")
				}
				at = write
			}}
			for i, s := range c.wrote {
				write = i + 1
				want.WriteString(s)
				if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			if at != c.at || out.String() != want.String() {
				t.Errorf("found at write %d, want %d; passed on %q", at, c.at, out.String())
			}
		})
	}
}
