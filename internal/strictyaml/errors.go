package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrContent matches every error about a file's content.
var ErrContent = errors.New("strictyaml: bad content")

// Pos is a place in a file. Line and Column count from 1; a Line of 0 means unknown.
type Pos struct {
	File         string
	Line, Column int
}

// Error is one error in a file.
type Error struct {
	Pos
	Key     string // path of the key, as in "failures[1].events[0].at"; "" for the whole file
	Problem string // what is wrong
	Remedy  string // what would be right
}

// Error returns "file:line:column: key path: what is wrong; what would be right". Unknown parts are left out.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Line > 0:
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, e.Line, e.Column)
	case e.File != "":
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	b.WriteString(e.Problem)
	if e.Remedy != "" {
		fmt.Fprintf(&b, "; %s", e.Remedy)
	}
	return b.String()
}

// Is reports whether target is [ErrContent].
func (e *Error) Is(target error) bool { return target == ErrContent }

// Errors are all errors found in a file, in the order of its lines. It is never empty.
type Errors []*Error

// Error returns one line per error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Is reports whether target is [ErrContent].
func (es Errors) Is(target error) bool { return target == ErrContent }

// Err returns es in order of position, or nil if it is empty.
func (es Errors) Err() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return es
}

// Choose returns the remedy for an unknown word: the most similar known word, if any, and all known words.
func Choose(word string, known []string) string {
	all := strings.Join(known, ", ")
	if n := Nearest(word, known); n != "" {
		return fmt.Sprintf("did you mean %s? (one of %s)", n, all)
	}
	return "write one of " + all
}

// Nearest returns the known word that is most similar to word, or "".
func Nearest(word string, known []string) string {
	best, least := "", max(1, (len(word)+1)/3)+1
	for _, k := range known {
		if d := editDistance(strings.ToLower(word), k); d < least {
			best, least = k, d
		}
	}
	return best
}

// editDistance is the Damerau-Levenshtein distance of two words, in bytes
// (neighbours swapped count as one).
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	var d [65][65]int
	for i := range len(a) + 1 {
		for j := range len(b) + 1 {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				d[i][j] = d[i-1][j-1]
			default:
				d[i][j] = 1 + min(d[i-1][j-1], d[i-1][j], d[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
