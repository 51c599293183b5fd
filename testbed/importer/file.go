package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// inputFile is an input file with its path and text.
type inputFile struct {
	name  string
	data  []byte
	notes *notCarriedList
	rank  map[int]int // of hosts by their numbers in a topology; nil: the same
	steps int         // collectives of jobs so far
}

// fail returns an error at a line, from 1; 0: of the whole file. The text is a problem, a semicolon and a remedy.
func (f *inputFile) fail(line int, format string, args ...any) error {
	at := f.name
	if line > 0 {
		at += ":" + strconv.Itoa(line)
	}
	return fmt.Errorf("%w: %s: %s", ErrFile, at, fmt.Sprintf(format, args...))
}

// countNotCarried counts a property that the import drops, and remembers its first place. Line 0 is the whole file.
func (f *inputFile) countNotCarried(line int, what, first string) {
	at := f.name
	if line > 0 {
		at += ":" + strconv.Itoa(line)
	}
	f.notes.add(what, at+": "+first)
}

// lines calls each for the words of each line that has some, with its number.
func (f *inputFile) lines(each func(line int, words []string) error) error {
	line := 0
	for text := range strings.Lines(string(f.data)) {
		line++
		if words := strings.Fields(text); len(words) > 0 {
			if err := each(line, words); err != nil {
				return err
			}
		}
	}
	return nil
}

// word is a word of a file without regard to lines, and its line.
type word struct {
	text string
	line int
}

// words returns all words. Programs that read by C++'s >> do not look at lines.
func (f *inputFile) words() []word {
	var out []word
	_ = f.lines(func(line int, words []string) error {
		for _, w := range words {
			out = append(out, word{w, line})
		}
		return nil
	})
	return out
}

// number reads a whole number of least to most.
func (f *inputFile) number(line int, what, text string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, f.fail(line, "%s is %q; write %d to %d", what, text, least, most)
	}
	return n, nil
}

// decimal reads a decimal number of 0 to most.
func (f *inputFile) decimal(line int, what, text string, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= most) {
		return 0, f.fail(line, "%s is %q; write a number of 0 to %g", what, text, most)
	}
	return v, nil
}

// quantity reads a number with a unit, such as 100Gbps, in what the unit counts.
func (f *inputFile) quantity(line int, what, text string, units map[string]float64) (int64, error) {
	i := strings.LastIndexAny(text, "0123456789.") + 1
	v, err := strconv.ParseFloat(text[:i], 64)
	size, known := units[text[i:]]
	if err != nil || !known || !(v >= 0 && v*size < math.MaxInt64/2) {
		var names []string
		for u := range units {
			names = append(names, u)
		}
		slices.Sort(names)
		return 0, f.fail(line, "%s is %q; write a number and one of %s", what, text, strings.Join(names, ", "))
	}
	return int64(math.Round(v * size)), nil
}

// Units of ns-3.
func rateUnits() map[string]float64 {
	return map[string]float64{"bps": 1, "kbps": 1e3, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "Tbps": 1e12}
}

func delayUnits() map[string]float64 {
	return map[string]float64{
		"ps": 1, "ns": float64(fabric.Nanosecond), "us": float64(fabric.Microsecond), "ms": float64(fabric.Millisecond), "s": float64(fabric.Second),
	}
}

// firstWords recognises files whose first lines begin with these words, in any case and order, comments apart.
func firstWords(words ...string) func(data []byte) bool {
	return func(data []byte) bool {
		missing, lines := slices.Clone(words), 0
		for text := range strings.Lines(string(data)) {
			w := strings.Fields(text)
			if len(w) == 0 || strings.HasPrefix(w[0], "#") {
				continue
			}
			i := slices.Index(missing, strings.ToLower(w[0]))
			if i >= 0 && len(w) == 2 {
				missing = slices.Delete(missing, i, i+1)
			}
			if lines++; len(missing) == 0 || lines > 4 {
				break
			}
		}
		return len(missing) == 0
	}
}

// firstNumbers returns the numbers of the first two lines that have words, as far as these are numbers.
func firstNumbers(data []byte) (first, second []int64, more []string) {
	lines := 0
	for text := range strings.Lines(string(data)) {
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		for _, w := range words {
			n, err := strconv.ParseInt(w, 10, 64)
			switch {
			case lines == 0 && err == nil:
				first = append(first, n)
			case lines == 0:
				more = append(more, w)
			case lines == 1 && err == nil:
				second = append(second, n)
			}
		}
		if lines++; lines == 2 {
			break
		}
	}
	return first, second, more
}

// notCarriedList are counts of properties of the input file that the import drops.
type notCarriedList []notCarried

type notCarried struct {
	what, first string
	count       int
}

func (ns *notCarriedList) add(what, first string) {
	for i := range *ns {
		if (*ns)[i].what == what {
			(*ns)[i].count++
			return
		}
	}
	*ns = append(*ns, notCarried{what, first, 1})
}

// texts returns the notes for display: "what: 12, the first: where", or what alone of facts without a place.
func (ns notCarriedList) texts() []string {
	var out []string
	for _, n := range ns {
		if n.first == "" {
			out = append(out, n.what)
			continue
		}
		out = append(out, fmt.Sprintf("%s: %d, the first: %s", n.what, n.count, n.first))
	}
	return out
}
