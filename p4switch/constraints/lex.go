package constraints

import (
	"fmt"
	"strings"
)

// token is a part of the text. Operators are their own kind.
type token struct {
	kind     string // "identifier", "number", "string", "end", or the operator or keyword itself
	from, to int    // bytes of the text
}

const (
	kindIdentifier = "identifier"
	kindNumber     = "number"
	kindString     = "string"
	kindEnd        = "end"
)

// operators are tried in this order.
var operators = []string{"&&", "||", "->", "::", "==", "!=", ">=", "<=", "!", "(", ")", ">", "<", ".", ";", "-"}

// lex splits a constraint into tokens, the last of which is the end.
func lex(text string) ([]token, error) {
	var out []token
	for at := 0; at < len(text); {
		rest := text[at:]
		c := rest[0]
		n := 0
		kind := ""
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			at++
			continue
		case strings.HasPrefix(rest, "//"):
			if n = strings.IndexAny(rest, "\r\n"); n < 0 {
				n = len(rest)
			}
			at += n
			continue
		case strings.HasPrefix(rest, "/*"):
			if n = strings.Index(rest, "*/"); n < 0 {
				return nil, fmt.Errorf("the comment %s does not end", quote(rest))
			}
			at += n + 2
			continue
		case isLetter(c):
			n = span(rest, func(c byte) bool { return isLetter(c) || isDigit(c) })
			if kind = rest[:n]; kind != "true" && kind != "false" {
				kind = kindIdentifier
			}
		case isDigit(c):
			kind, n = kindNumber, numeral(rest)
		case c == '\'':
			if n = strings.IndexByte(rest[1:], '\'') + 2; n < 2 {
				return nil, fmt.Errorf("the string %s does not end", quote(rest))
			}
			kind = kindString
		default:
			for _, op := range operators {
				if strings.HasPrefix(rest, op) {
					kind, n = op, len(op)
					break
				}
			}
			if n == 0 {
				return nil, fmt.Errorf("%q has no meaning here: %s", c, quote(rest))
			}
		}
		out = append(out, token{kind, at, at + n})
		at += n
	}
	return append(out, token{kindEnd, len(text), len(text)}), nil
}

func isLetter(c byte) bool { return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// span is how many bytes at the start of s are in a class.
func span(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// numeral is how long the number at the start of s is: with a prefix 0b, 0o, 0d or 0x when digits of its base follow.
func numeral(s string) int {
	if len(s) > 2 && s[0] == '0' {
		if base, ok := bases[s[1]|0x20]; ok {
			if n := span(s[2:], base.digit); n > 0 {
				return n + 2
			}
		}
	}
	return span(s, isDigit)
}

// bases maps prefixes such as 0x to the base of the number.
var bases = map[byte]struct {
	base  int
	digit func(byte) bool
}{
	'b': {2, func(c byte) bool { return c == '0' || c == '1' }},
	'o': {8, func(c byte) bool { return '0' <= c && c <= '7' }},
	'd': {10, isDigit},
	'x': {16, func(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }},
}

// quote is a part of a constraint for an error: on one line, and cut off when it is long.
func quote(s string) string {
	const most = 160
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = s[:most] + " .."
	}
	return fmt.Sprintf("%q", s)
}
