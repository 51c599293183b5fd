package fabric

import (
	"fmt"
	"strconv"
	"strings"
)

// For display: quantities to four digits, in a suitable unit. Files and scenarios have the exact values, by String.

// Rough prints t as in "2.578 s".
func (t Time) Rough() string {
	if t == 0 {
		return "0 s"
	}
	return roundUnit(float64(t), timeUnits, "ps")
}

// Rough prints r as in "5 Mb/s".
func (r Rate) Rough() string { return roundUnit(float64(r), rateUnits, "b/s") }

// Rough prints b as in "3.423 GB", by decimal units.
func (b Bytes) Rough() string { return roundUnit(float64(b), roughBytes, "B") }

var roughBytes = []unit{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

func roundUnit(v float64, units []unit, least string) string {
	abs := max(v, -v)
	for _, u := range units {
		// 999.96 us is 1 ms to four digits.
		if size := float64(u.size); abs >= size*0.99995 {
			return digits(v/size) + " " + u.name
		}
	}
	return digits(v) + " " + least
}

// digits prints v to four digits, without trailing zeros.
func digits(v float64) string {
	decimals := 3
	for a := max(v, -v); a >= 9.9995 && decimals > 0; a /= 10 {
		decimals--
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// Count prints a number with its noun, as in "1 run", "2 runs", "3 switches".
func Count(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"), strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
