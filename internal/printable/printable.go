// Package printable makes text of other programs and machines fit for a terminal.
package printable

import (
	"io"
	"strings"
	"unicode"
)

// Text returns a text without what would steer a terminal.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Writer writes such text to a terminal.
func Writer(terminal io.Writer) io.Writer { return writer{terminal} }

type writer struct{ io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, Text(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
