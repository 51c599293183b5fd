package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// UnmarshalJSON also takes the bare numbers that some operands are. Most of a program's JSON is such values, nested
// deeply, each level as a value of the one above. It reads each byte once: by encoding/json, which looks for the end of
// a value before it decodes the value, the time would grow as the square of the depth.
func (v *jVal) UnmarshalJSON(b []byte) error {
	r := valueReader{b: bytes.Clone(b)} // values keep parts of it
	return r.value(v)
}

// unindented returns JSON without the white space at the beginning of lines: of p4c's JSON two thirds, over which
// encoding/json goes several times. No string of JSON has a line break in it.
func unindented(b []byte) []byte {
	out := make([]byte, 0, len(b)/2)
	for len(b) > 0 {
		for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
			b = b[1:]
		}
		end := bytes.IndexByte(b, '\n') + 1
		if end == 0 {
			end = len(b)
		}
		out, b = append(out, b[:end]...), b[end:]
	}
	return out
}

// valueReader reads JSON that encoding/json has checked.
type valueReader struct {
	b  []byte
	at int
}

// value reads a value. After an error it stands behind the value too.
func (r *valueReader) value(v *jVal) error {
	if r.next() == '{' {
		return r.object(v)
	}
	raw := r.raw()
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return fmt.Errorf("program: value %.40q is neither an object nor an integer", raw)
	}
	v.Type, v.num = "number", n
	return nil
}

// object reads an object. It returns the first error and reads on.
func (r *valueReader) object(v *jVal) (first error) {
	fail := func(err error) {
		if first == nil && err != nil {
			first = err
		}
	}
	r.at++
	for {
		switch r.next() {
		case ',':
			r.at++
			continue
		case '}', 0:
			r.at++
			if v.Type != "expression" {
				v.inner = nil
			}
			return first
		}
		key, err := text(r.raw())
		fail(err)
		r.next() // the colon
		r.at++
		switch c := r.next(); key {
		case "type":
			fail(r.text(key, &v.Type))
		case "op":
			fail(r.text(key, &v.Op))
		case "bitwidth":
			fail(r.integer(&v.Bitwidth))
		case "left":
			fail(r.operand(&v.Left))
		case "right":
			fail(r.operand(&v.Right))
		case "cond":
			fail(r.operand(&v.Cond))
		case "value":
			start := r.at
			// An expression's, unless the type comes later and is another.
			if v.inner = nil; (v.Type == "" || v.Type == "expression") && (c == '{' || c == '-' || c >= '0' && c <= '9') {
				if in := new(jVal); r.value(in) == nil {
					v.inner = in
				}
			} else {
				r.raw()
			}
			v.Value = r.b[start:r.at]
		default:
			r.raw()
		}
	}
}

// next skips white space and returns the byte there; 0 at the end.
func (r *valueReader) next() byte {
	for ; r.at < len(r.b); r.at++ {
		switch c := r.b[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// raw skips a value and returns it.
func (r *valueReader) raw() []byte {
	start, depth := r.at, 0
	for r.at < len(r.b) {
		switch c := r.b[r.at]; c {
		case '"':
			for r.at++; r.at < len(r.b) && r.b[r.at] != '"'; r.at++ {
				if r.b[r.at] == '\\' {
					r.at++
				}
			}
			r.at++
		case '{', '[':
			depth++
			r.at++
			continue
		case '}', ']':
			depth--
			r.at++
		case ',', ':', ' ', '\t', '\r', '\n':
			r.at++
			continue
		default:
			for r.at < len(r.b) && !strings.ContainsRune(",:]} \t\r\n", rune(r.b[r.at])) {
				r.at++
			}
		}
		if depth <= 0 {
			break
		}
	}
	r.at = min(r.at, len(r.b))
	return r.b[start:r.at]
}

// text decodes a string.
func text(raw []byte) (s string, err error) {
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	return s, json.Unmarshal(raw, &s)
}

// text reads a member that is a string or null.
func (r *valueReader) text(name string, to *string) error {
	s, err := text(r.raw())
	if err != nil {
		return fmt.Errorf("program: %q of a value is not a string", name)
	}
	*to = s
	return nil
}

// integer reads a member that is an integer, also as a string, or null.
func (r *valueReader) integer(to *int) error {
	raw := r.raw()
	if string(raw) == "null" {
		return nil
	}
	n, err := strconv.Atoi(string(bytes.Trim(raw, `"`)))
	if err != nil {
		return fmt.Errorf("program: bitwidth of a value: %w", err)
	}
	*to = n
	return nil
}

// operand reads a member that is a value or null.
func (r *valueReader) operand(to **jVal) error {
	if r.next() == 'n' {
		r.raw()
		return nil
	}
	*to = new(jVal)
	return r.value(*to)
}
