package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// poisson is traffic without order: every rank begins messages to random others, as a Poisson process.
type poisson struct {
	Sizes    string      `yaml:"sizes" required:"a file with lines of a size in bytes and a percentage of flows"` // relative to the file
	Load     Share       `yaml:"load" required:"for example 50%"`                                                 // of each rank's link, on average
	Duration fabric.Time `yaml:"duration" required:"for example 5ms"`                                             // in which messages begin
	Ranks    string      `yaml:"ranks"`                                                                           // that send and receive: "0..7,12"
	Rate     fabric.Rate `yaml:"rate"`                                                                            // of a rank's link; the fabric's if absent
}

// maxPoisson is the largest mean number of messages.
const maxPoisson = 200_000

// flows draws the messages, by the seed.
func (p poisson) flows(group []int, rate fabric.Rate, sizes distribution, seed uint64) []Flow {
	gap := sizes.mean() * 8 / (float64(p.Load) * float64(rate)) * float64(fabric.Second) // mean time between two of a rank
	var out []Flow
	for i, from := range group {
		rng := rand.New(rand.NewPCG(seed, 0x706f6973736f6e<<8+uint64(i))) // "poisson"
		for at := rng.ExpFloat64() * gap; at < float64(p.Duration); at += rng.ExpFloat64() * gap {
			to := rng.IntN(len(group) - 1)
			if to >= i {
				to++
			}
			out = append(out, Flow{From: from, To: group[to], Bytes: sizes.at(100 * rng.Float64()), At: fabric.Time(at)})
		}
	}
	return out
}

// add adds the messages to a program that has all ranks.
func (p poisson) add(prog *Program, on Place, d *strictyaml.Decoder) {
	group, err := parseRanks(p.Ranks, len(prog.Ranks))
	if err != nil {
		problem, remedy, _ := strings.Cut(err.Error(), "; ")
		d.Complain("poisson.ranks", problem, remedy)
		return
	}
	rate := p.Rate
	if rate == 0 {
		rate = on.Rate
	}
	path := d.RelativePath(p.Sizes)
	data, err := strictyaml.ReadLarge(path, maxSizesBytes)
	if err != nil {
		d.Complain("poisson.sizes", err.Error(), "name a file with lines such as 10000 15: 15 % of flows have at most 10000 B")
		return
	}
	sizes, err := parseDistribution(string(data))
	switch {
	case err != nil:
		problem, remedy, _ := strings.Cut(err.Error(), "; ")
		d.Complain("poisson.sizes", path+":"+problem, remedy)
	case len(group) < 2:
		d.Complain("poisson.ranks", "a rank alone sends nothing", "name two or more")
	case p.Load <= 0:
		d.Complain("poisson.load", "no load", "write for example 50%")
	case p.Duration <= 0 || p.Duration > 100*fabric.Second:
		d.Complain("poisson.duration", fmt.Sprintf("%v is outside 0 to 100s", p.Duration), "write for example 5ms")
	case rate <= 0:
		d.Complain("poisson.rate", "no fabric is given, whose rate the load is of", "write for example 400Gb/s")
	default:
		mean := float64(len(group)) * (float64(p.Duration) / float64(fabric.Second)) * float64(p.Load) * float64(rate) / 8 / sizes.mean()
		if mean > maxPoisson {
			d.Complain("poisson.duration", fmt.Sprintf("about %.0f messages; at most %d", mean, maxPoisson), "use less time or load, or larger flows")
			return
		}
		addFlows(prog, p.flows(group, rate, sizes, on.Seed), d)
	}
}

// distribution is a distribution of sizes, as its points; between two of them it is even.
type distribution []struct{ bytes, percent float64 }

// Limits of a distribution.
const (
	maxSizesBytes = 1 << 20
	maxSize       = 1 << 31 // of a flow
)

// parseDistribution reads lines of a size in bytes and the percentage of flows of at most this size, from 0 to 100, as
// HPCC's traffic generator does, or their fraction, from 0 to 1. Errors begin with the line.
func parseDistribution(text string) (distribution, error) {
	var out distribution
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%d: %d numbers; write a size in bytes and a percentage", n, len(fields))
		}
		bytes, err := strconv.ParseFloat(fields[0], 64)
		percent, err2 := strconv.ParseFloat(fields[1], 64)
		if errors.Join(err, err2) != nil || !(bytes >= 0 && bytes <= maxSize && percent >= 0 && percent <= 100) {
			return nil, fmt.Errorf("%d: %q is no size of at most 2 GiB and percentage; write for example 10000 15", n, strings.Join(fields, " "))
		}
		if last := len(out) - 1; last >= 0 && (bytes <= out[last].bytes || percent <= out[last].percent) {
			return nil, fmt.Errorf("%d: %s %s is not above the line before; write sizes and percentages in rising order", n, fields[0], fields[1])
		}
		out = append(out, struct{ bytes, percent float64 }{bytes, percent})
	}
	if len(out) < 2 || out[0].percent != 0 {
		return nil, fmt.Errorf("%d: it does not begin with a line of 0 percent; write the smallest size and 0 there", min(n, 1))
	}
	switch last := out[len(out)-1].percent; last {
	case 100:
	case 1:
		for i := range out {
			out[i].percent *= 100
		}
	default:
		return nil, fmt.Errorf("%d: it ends with %v percent; write the largest size and 100 there", n, last)
	}
	return out, nil
}

// mean returns the mean size.
func (d distribution) mean() float64 {
	sum := 0.0
	for i := 1; i < len(d); i++ {
		sum += (d[i].bytes + d[i-1].bytes) / 2 * (d[i].percent - d[i-1].percent) / 100
	}
	return sum
}

// at returns the size below which that many percent of the flows are; at least 1 byte.
func (d distribution) at(percent float64) fabric.Bytes {
	for i := 1; i < len(d); i++ {
		if a, b := d[i-1], d[i]; percent <= b.percent {
			return max(1, fabric.Bytes(a.bytes+(b.bytes-a.bytes)*(percent-a.percent)/(b.percent-a.percent)))
		}
	}
	return fabric.Bytes(math.Max(1, d[len(d)-1].bytes))
}

// Share is a fraction, 0 to 1. In YAML it is a number or a percentage.
type Share float64

// UnmarshalText reads "1%" or "0.01".
func (s *Share) UnmarshalText(text []byte) error {
	number, percent := strings.CutSuffix(strings.TrimSpace(string(text)), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q is not a share of 0 to 1; write for example 1%% or 0.01", text)
	}
	*s = Share(v)
	return nil
}

// MarshalText prints a percentage.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String prints a percentage: "1%".
func (s Share) String() string { return strconv.FormatFloat(float64(s)*100, 'g', 10, 64) + "%" }
