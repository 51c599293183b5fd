package tofino

import (
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// ternaryRow is an entry of a table with prefixes or masks, in the harness's words.
type ternaryRow struct {
	key    string // such as dst:0b00001010****
	action string // such as forward_down(port:0x3)
}

// ternaryRows are a table's rows in the chip, lowest priority first. The chip has them from address 0 without a gap.
type ternaryRows struct {
	table   string
	any     ternaryRow // a row that matches all and does what a miss does
	written []ternaryRow
}

// write returns the commands that make the table be want, lowest priority first.
func (t *ternaryRows) write(want []ternaryRow) (commands []string) {
	padding := t.any
	if len(want) > 0 {
		padding = want[len(want)-1]
	}
	for i := range max(len(want), len(t.written)) {
		r := padding
		if i < len(want) {
			r = want[i]
		}
		if i == len(t.written) {
			t.written = append(t.written, ternaryRow{})
		}
		if t.written[i] != r {
			t.written[i] = r
			commands = append(commands, fmt.Sprintf("add %s %d %s %s", t.table, i, r.key, r.action))
		}
	}
	return commands
}

// ternary returns a field's value and mask as binary digits with stars.
func ternary(k program.KeyField, m program.FieldMatch) string {
	bits := make([]byte, k.Width)
	for i := range bits {
		value := bitOf(m.Value, k.Width, i)
		switch {
		case m.Any || k.Kind == program.LPM && i >= m.PrefixLen ||
			k.Kind == program.Ternary && m.Mask != nil && bitOf(m.Mask, k.Width, i) == 0:
			bits[i] = '*'
		default:
			bits[i] = '0' + value
		}
	}
	return k.Name + ":0b" + string(bits)
}

// bitOf returns bit i, counted from the highest of width bits, of a big-endian number of any length.
func bitOf(b []byte, width, i int) byte {
	low := width - 1 - i
	at := len(b) - 1 - low/8
	if at < 0 {
		return 0
	}
	return b[at] >> (low % 8) & 1
}

// exactValue returns a field's value.
func exactValue(k program.KeyField, m program.FieldMatch) string {
	return k.Name + ":" + hexadecimal(m.Value)
}

// hexadecimal returns a number as 0x and digits.
func hexadecimal(b []byte) string {
	s := strings.TrimLeft(fmt.Sprintf("%x", b), "0")
	if s == "" {
		s = "0"
	}
	return "0x" + s
}
