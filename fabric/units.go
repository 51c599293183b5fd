package fabric

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Time is a point in time or a duration, in picoseconds. At 400 Gb/s a byte takes 20 ps, so every transmission time
// of the field's rates is a whole number. An int64 holds 106 days.
//
// Agents use it too: with their times rounded to nanoseconds, 6 of 120 completion times of testbed/sweeps/readme.yaml
// changed by more than 1 %, one by 16 %, because pieces meet in another order.
type Time int64

// Units of [Time].
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Limits of time. A difference between [LongAgo] and a time of less than 53 days does not overflow.
const (
	LongAgo Time = math.MinInt64 / 2
	Never   Time = math.MaxInt64
)

// Rebase converts t to a clock that shows 0 when t's clock shows zero. [Never] remains Never, and no result is before
// [LongAgo].
func (t Time) Rebase(zero Time) Time {
	if t == Never {
		return t
	}
	return max(t-zero, LongAgo)
}

// Micros returns t in microseconds.
func (t Time) Micros() float64 { return float64(t) / float64(Microsecond) }

// String prints t in the largest unit that leaves it at least one, as in
// "1.5us".
func (t Time) String() string {
	if t == 0 {
		return "0s"
	}
	abs := t
	if abs < 0 {
		abs = -abs
	}
	for _, u := range timeUnits {
		if abs >= u.size {
			return strconv.FormatFloat(float64(t)/float64(u.size), 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(t), 10) + "ps"
}

// UnmarshalText reads a number and a unit: s, ms, us, ns or ps.
func (t *Time) UnmarshalText(text []byte) error {
	v, err := parseQuantity(string(text), timeUnits)
	if err != nil {
		return fmt.Errorf("fabric: time %q: %w; write for example 0.5us, 100ns or 1ms", text, err)
	}
	*t = Time(v)
	return nil
}

// MarshalText prints t as [Time.String] does.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Rate is a transmission rate in bits per second.
type Rate int64

// Units of [Rate].
const (
	Kbps Rate = 1000
	Mbps      = 1000 * Kbps
	Gbps      = 1000 * Mbps
	Tbps      = 1000 * Gbps
)

// TimeFor returns the time to send n bytes at r, rounded up to a picosecond. For a rate of zero or less it returns
// [Never].
func (r Rate) TimeFor(n int64) Time {
	if r <= 0 {
		return Never
	}
	// 8e12 ps*bit/s per byte: split to stay inside 64 bits for any size below
	// 1 MB, and use floating point, exact enough, beyond.
	const perByte = 8 * int64(Second)
	if n < math.MaxInt64/perByte {
		return Time((n*perByte + int64(r) - 1) / int64(r))
	}
	return Time(math.Ceil(float64(n) * float64(perByte) / float64(r)))
}

// String prints r in the largest unit that leaves it at least one, as in
// "400Gb/s".
func (r Rate) String() string {
	for _, u := range rateUnits {
		if int64(r) >= int64(u.size) {
			return strconv.FormatFloat(float64(r)/float64(u.size), 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(int64(r), 10) + "b/s"
}

// UnmarshalText reads a number and a unit: b/s, kb/s, Mb/s, Gb/s or Tb/s.
func (r *Rate) UnmarshalText(text []byte) error {
	v, err := parseQuantity(string(text), rateUnits)
	if err != nil {
		return fmt.Errorf("fabric: rate %q: %w; write for example 400Gb/s or 1.6Tb/s", text, err)
	}
	*r = Rate(v)
	return nil
}

// MarshalText prints r as [Rate.String] does.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Bytes is a size in bytes. Its units are decimal (MB = 10^6), as in the
// collective sizes of the literature; KiB, MiB and GiB are binary.
type Bytes int64

// String prints b in the largest decimal unit that divides it.
func (b Bytes) String() string {
	for _, u := range byteUnits {
		if strings.HasSuffix(u.name, "iB") || int64(u.size) > int64(b) {
			continue
		}
		if int64(b)%int64(u.size) == 0 {
			return strconv.FormatInt(int64(b)/int64(u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// UnmarshalText reads a number and a unit: B, KB, MB, GB, KiB, MiB or GiB. A
// bare number is bytes.
func (b *Bytes) UnmarshalText(text []byte) error {
	s := string(text)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		*b = Bytes(n)
		return nil
	}
	v, err := parseQuantity(s, byteUnits)
	if err != nil {
		return fmt.Errorf("fabric: size %q: %w; write for example 16MB, 64KiB or 1500B", text, err)
	}
	*b = Bytes(v)
	return nil
}

// MarshalText prints b as [Bytes.String] does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

type unit struct {
	name string
	size Time // in the quantity's base unit; Time only as a wide integer
}

var (
	timeUnits = []unit{{"s", Second}, {"ms", Millisecond}, {"us", Microsecond}, {"ns", Nanosecond}, {"ps", Picosecond}}
	rateUnits = []unit{{"Tb/s", Time(Tbps)}, {"Gb/s", Time(Gbps)}, {"Mb/s", Time(Mbps)}, {"kb/s", Time(Kbps)}, {"b/s", 1}}
	byteUnits = []unit{
		{"GiB", 1 << 30}, {"GB", 1e9}, {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"kB", 1e3}, {"B", 1},
	}
)

// parseQuantity reads "<number><unit>", spaces between them allowed, and
// returns it in base units, rounded to the nearest.
func parseQuantity(s string, units []unit) (int64, error) {
	s = strings.TrimSpace(s)
	split := strings.LastIndexAny(s, "0123456789.") + 1
	number, name := s[:split], strings.TrimSpace(s[split:])
	if number == "" {
		return 0, fmt.Errorf("no number")
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a number of 0 or more", number)
	}
	names := make([]string, 0, len(units))
	for _, u := range units {
		if u.name == name {
			scaled := math.Round(v * float64(u.size))
			if scaled >= math.MaxInt64 {
				return 0, fmt.Errorf("too large")
			}
			return int64(scaled), nil
		}
		names = append(names, u.name)
	}
	if name == "" {
		return 0, fmt.Errorf("the unit is missing (one of %s)", strings.Join(names, ", "))
	}
	return 0, fmt.Errorf("unknown unit %q (one of %s)", name, strings.Join(names, ", "))
}
