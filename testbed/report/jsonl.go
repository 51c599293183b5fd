package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrResult is wrapped by the errors of [Decode] about content.
var ErrResult = errors.New("report: bad result")

// maxLine is the maximum length of a line of JSON: a run on the largest fabric is much shorter.
const maxLine = 1 << 28

// Encode writes a result as one line of JSON. Empty lists are written as such, never as null.
func Encode(w io.Writer, r *Result) error {
	out := *r
	out.Links, out.FlipRecords, out.Timeline = orEmpty(r.Links), orEmpty(r.FlipRecords), orEmpty(r.Timeline)
	out.Steps = orEmpty(r.Steps)
	out.UplinkLoads, out.QueueMax, out.QueueMean = orEmpty(r.UplinkLoads), orEmpty(r.QueueMax), orEmpty(r.QueueMean)
	if out.Variant == nil {
		out.Variant = map[string]string{}
	}
	line, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("report: result of %s %s: %w", r.Scheme, r.Collective, err)
	}
	if _, err := w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Decode reads results that [Encode] wrote, one per line; it skips empty lines. name appears in errors.
func Decode(r io.Reader, name string) ([]*Result, error) {
	var out []*Result
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 1<<16), maxLine)
	for line := 1; in.Scan(); line++ {
		text := in.Text()
		if strings.TrimSpace(text) == "" {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		var res Result
		if err := dec.Decode(&res); err != nil {
			return nil, fmt.Errorf("%w: %s:%d: %w; each line is one run's JSON object", ErrResult, name, line, err)
		}
		if dec.More() {
			return nil, fmt.Errorf("%w: %s:%d: more than one value; each line is one run's JSON object", ErrResult, name, line)
		}
		out = append(out, &res)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("report: %s: %w", name, err)
	}
	return out, nil
}
