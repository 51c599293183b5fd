package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Load reads a case from a scenario file. The file must have one collective and one seed, and the failure "healthy". A
// case of another class has one more failure, with events and one notifier. violated are the names of the invariants
// that the case violated when the file was written, as its first line lists them.
func Load(path string) (c Case, violated []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return c, nil, err
	}
	s, err := scenario.Load(path)
	if err != nil {
		return c, nil, err
	}
	bad := func(problem string) (Case, []string, error) {
		return Case{}, nil, fmt.Errorf("%s: %s; write one as ethereal cases --dry-run prints it", path, problem)
	}
	if len(s.Collectives) != 1 || len(s.Seeds) != 1 {
		return bad("a case has one collective and one seed")
	}
	if len(s.Failures) > 2 || len(s.Failures[0].Events) > 0 || s.Failures[0].Name != healthyCase {
		return bad("a case has the failures " + healthyCase + " and at most one more")
	}
	f, err := fabric.New(s.Fabric)
	if err != nil {
		return c, nil, err
	}
	c = Case{
		Name:  strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)),
		Class: Healthy, What: "nothing", Text: string(text),
		Fabric: fabricText(s.Fabric), Collective: s.Collectives[0].String(), Control: string(s.Host.CongestionControl),
		Trip:      roundTrip(f.Spec(), int64(s.Host.Payload)),
		Threshold: threshold(f.Spec(), int64(s.Switch.Buffer), s.Switch.Alpha),
		Patient:   patientBytes(f.Spec(), s.Host.RTO), path: path,
	}
	if len(s.Failures) == 2 {
		failed := s.Failures[1]
		if len(failed.Notifiers) != 1 || len(failed.Events) == 0 || failed.Name != failedCase {
			return bad("the failure " + failedCase + " has events and one notifier")
		}
		var detected fabric.Time
		c.Class, detected = classOf(failed)
		c.What = failed.Events[0].String()
		c.Allowed = allowedTime(c.Class, detected, f.Spec(), int64(s.Host.Payload))
	}
	if list, ok := strings.CutPrefix(c.Text, violatesPrefix); ok {
		list, c.Text, _ = strings.Cut(list, "\n")
		violated = strings.Split(list, ", ")
	}
	return c, violated, nil
}

func fabricText(s fabric.Spec) string { return drawnFabric{spec: s}.yaml() }

// timelyDetection is the latest detection of the classes quench and gnmi.
const timelyDetection = 30 * fabric.Microsecond

// classOf returns a failure's class, and the latest detection of its events.
func classOf(f scenario.Failure) (_ Class, detected fabric.Time) {
	for _, e := range f.Events {
		detected = max(detected, e.Detection)
	}
	// A case with one of these actions alone has its class.
	classes := map[scenario.Action]Class{scenario.Gray: Gray, scenario.Degrade: Degraded, scenario.Flap: Flap}
	first, special := classes[f.Events[0].Action]
	for _, e := range f.Events {
		cut := e.Action == scenario.Cut || e.Action == scenario.Restore
		if class, ok := classes[e.Action]; ok != special || class != first || !ok && !cut {
			return Other, detected
		}
	}
	if special {
		return first, detected
	}
	switch n := f.Notifiers[0]; {
	case n == scenario.NotifyTimeout:
		return NotNotified, detected
	case detected > timelyDetection:
		return Late, detected
	case n == scenario.NotifyGNMI:
		return GNMI, detected
	}
	return Quench, detected
}
