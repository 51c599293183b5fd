// Package printable makes text from other programs and machines safe for a terminal.
package printable

import (
	"io"
	"strings"
	"unicode"
)

// Text returns a text without control characters, so that it cannot control a terminal.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Writer returns a writer that applies [Text] before it writes to a terminal.
func Writer(terminal io.Writer) io.Writer { return writer{terminal} }

type writer struct{ io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
