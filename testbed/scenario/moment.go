package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// Moment is a time in a run, from the start of the collective: a share of the healthy run's completion time, plus a
// duration.
type Moment struct {
	Share Share // share of the healthy run's completion time
	Plus  fabric.Time
}

// String prints "30%", "20us" or "30%+20us".
func (m Moment) String() string {
	switch {
	case m.Share == 0:
		return m.Plus.String()
	case m.Plus == 0:
		return m.Share.String()
	}
	return m.Share.String() + "+" + m.Plus.String()
}

// At returns the moment's time for a healthy completion time.
func (m Moment) At(healthy fabric.Time) fabric.Time {
	return fabric.Time(float64(m.Share)*float64(healthy)) + m.Plus
}

// Moments are the times at which an event happens, one run per time. In YAML they are a time, a share, a sum of
// both, a range of any, or a list of all these: 20us, 30%, 30%+50us, 10%..90%, 10us..90us/3, [10%, 30%, 1us].
type Moments []Moment

// rangePoints is the default number of moments in a range.
const rangePoints = 9

// maxMoments is the largest number of moments of one event.
const maxMoments = 1000

// UnmarshalStrict reads the value from YAML, for [strictyaml.Unmarshaler].
func (m *Moments) UnmarshalStrict(d *strictyaml.Decoder, n *yaml.Node, path string) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	*m = nil
	for _, item := range items {
		if !d.Scalar(item, path, "a time") {
			return
		}
		more, err := parseMoments(item.Value)
		if err == nil && len(*m)+len(more) > maxMoments {
			err = fmt.Errorf("more than %d times", maxMoments)
		}
		if err != nil {
			d.ComplainAt(item, path, err.Error(), "write for example 20us, 30%, 30%+50us, 10%..90%, 10us..90us/3 or [10%, 30%, 1us]")
			return
		}
		*m = append(*m, more...)
	}
	if len(*m) == 0 {
		d.ComplainAt(n, path, "no time is in the list", "write for example [10%, 50%, 90%]")
	}
}

// parseMoments reads a moment, or a range of them.
func parseMoments(text string) (Moments, error) {
	from, rest, isRange := strings.Cut(text, "..")
	if !isRange {
		m, err := parseMoment(text)
		return Moments{m}, err
	}
	to, many, counted := strings.Cut(rest, "/")
	count := rangePoints
	if counted {
		var err error
		if count, err = strconv.Atoi(strings.TrimSpace(many)); err != nil || count < 2 || count > maxMoments {
			return nil, fmt.Errorf("%q is not a number of times, 2 to %d", many, maxMoments)
		}
	}
	a, err := parseMoment(from)
	b, err2 := parseMoment(to)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if (a.Share == 0) != (b.Share == 0) || b.Share < a.Share || b.Share == a.Share && b.Plus <= a.Plus {
		return nil, fmt.Errorf("%q is not a range from one share to a larger one, or from one time to a later one", text)
	}
	out := make(Moments, count)
	for i := range out {
		part := float64(i) / float64(count-1)
		out[i] = Moment{
			Share: a.Share + Share(part)*(b.Share-a.Share), Plus: a.Plus + fabric.Time(part*float64(b.Plus-a.Plus)),
		}
	}
	return out, nil
}

// parseMoment reads "30%", "20us" or "30%+20us".
func parseMoment(text string) (m Moment, err error) {
	share, plus, both := strings.Cut(text, "%")
	if !both {
		err = m.Plus.UnmarshalText([]byte(text))
		return m, withoutPackage(err)
	}
	if err := m.Share.UnmarshalText([]byte(share + "%")); err != nil {
		return m, err
	}
	if plus = strings.TrimSpace(plus); plus == "" {
		return m, nil
	}
	after, ok := strings.CutPrefix(plus, "+")
	if !ok {
		return m, fmt.Errorf("%q after a share is not + and a time", plus)
	}
	return m, withoutPackage(m.Plus.UnmarshalText([]byte(after)))
}

// withoutPackage removes the package's name from an error about a quantity.
func withoutPackage(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(strings.TrimPrefix(err.Error(), "fabric: "))
}

// countMoments returns the number of the case's times, one run per time, and an error if its events disagree.
func (c Failure) countMoments() (int, error) {
	most := 1
	for _, e := range c.Events {
		n := len(e.When)
		if n > 1 && most > 1 && n != most {
			return 0, fmt.Errorf("one event has %d times and another %d", most, n)
		}
		most = max(most, n)
	}
	return most, nil
}

// atMoment returns the case with the i-th of its times. If there are several, its name contains the time.
func (c Failure) atMoment(i int) Failure {
	out := c
	out.Case = c.Name
	out.Events = slices.Clone(c.Events)
	named := false
	for j := range out.Events {
		e := &out.Events[j]
		if len(e.When) == 0 {
			continue
		}
		m := e.When[min(i, len(e.When)-1)]
		if len(e.When) > 1 && !named {
			named = true
			out.Name = fmt.Sprintf("%s at %v", c.Name, m)
		}
		if e.When = nil; m.Share != 0 {
			e.When = Moments{m}
		}
		e.At = m.Plus
	}
	return out
}

// timesKnown reports whether all times of the case are known. Unknown times are shares of a run that is still to be
// made.
func (c Failure) timesKnown() bool {
	return !slices.ContainsFunc(c.Events, func(e Event) bool { return len(e.When) > 0 })
}

// Healthy returns the same run without events, of whose duration r's event times are shares. ok is false if none of
// them is a share.
func (r Run) Healthy() (_ Run, ok bool) {
	if r.Failure.timesKnown() {
		return r, false
	}
	r.Failure, r.Events, r.Interventions, r.Notifier = Failure{Name: "healthy"}, nil, nil, NotifyNone
	return r, true
}

// Timed returns the run with the times of its events, given the healthy run's duration.
func (r Run) Timed(healthy fabric.Time) (Run, error) {
	r.Failure.Events = slices.Clone(r.Failure.Events)
	for i := range r.Failure.Events {
		e := &r.Failure.Events[i]
		if len(e.When) == 0 {
			continue
		}
		e.At, e.When = e.When[0].At(healthy), nil
		if e.At >= r.Scenario.Deadline {
			return r, strictyaml.Errors{scenarioError("deadline", fmt.Sprintf("%v is not after an event at %v", r.Scenario.Deadline, e.At), "raise it")}
		}
	}
	var err error
	if r.Events, err = r.Failure.LinkEvents(r.Fabric, r.Seed); err != nil {
		return r, err
	}
	r.Interventions, err = r.Failure.Interventions(r.Fabric)
	return r, err
}

// Ready returns an error if the times of the run's events are not known yet: see [Run.Timed].
func (r Run) Ready() error {
	if !r.Failure.timesKnown() {
		return errors.New("the healthy run, which the times of its events are shares of, has not been made")
	}
	return nil
}
