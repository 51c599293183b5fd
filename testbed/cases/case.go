package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Names of a case's two failure cases.
const (
	healthyCase = "healthy"
	failedCase  = "failed"
)

// Case is a randomly drawn scenario.
type Case struct {
	Name  string // unique among all cases of all seeds
	Seed  uint64
	Index int
	Class Class
	What  string // description of the failure in words
	Text  string // the scenario, as YAML

	Fabric, Collective, Control string // the scenario's rate control

	Jobs string // content of its workload file; "": it has none

	// Allowed is by how much a failure may lengthen the run compared with the healthy one: until hosts are notified or,
	// if they are not notified in time, four idle round trips.
	Allowed fabric.Time
	// Trip is the longest round trip of a packet through the idle fabric. No host can resend earlier what a dead link
	// took: the switch's quench and the retransmission cross the fabric once each.
	Trip fabric.Time
	// Threshold is the shortest queue, in bytes, at which a switch may drop a packet: the dynamic threshold if all
	// ports' queues are equally long.
	Threshold int64

	// Patient is the number of bytes that the slowest link carries in half the retransmission time-out. Behind a longer
	// queue the timer may expire without a loss.
	Patient int64

	path string // of its file; "": none
}

// Delays of the control plane, which no case changes: gNMI notification, computation, push to the agents.
const gnmiPush = 80 * fabric.Microsecond

// File returns the name of the scenario's file.
func (c Case) File() string { return c.Name + ".yaml" }

// JobsFile returns the name of the workload's file.
func (c Case) JobsFile() string { return c.Name + "-jobs.yaml" }

// Draw returns the case of a seed and an index, on a Clos fabric.
func Draw(seed uint64, index int) Case {
	return drawCase(seed, index, "", drawFabric(newDice(seed, index, "fabric")))
}

// Kinds returns the kinds of fabrics that [DrawKind] draws.
func Kinds() []string { return []string{fabric.KindDragonfly, kindRails} }

const kindRails = "rails" // a leaf-spine whose ToRs are rails, with traffic between rails by PXN

// DrawKind is [Draw] on a fabric of one of [Kinds].
func DrawKind(kind string, seed uint64, index int) Case {
	n := drawnFabric{}
	switch d := newDice(seed, index, kind); kind {
	case fabric.KindDragonfly:
		n = drawDragonfly(d)
	case kindRails:
		n = drawRails(d)
	default:
		panic("cases: no kind " + kind) // a programming error: callers choose of Kinds
	}
	return drawCase(seed, index, kind, n)
}

// drawCase draws all but the fabric. kind is that of the fabric if the command has to name it.
func drawCase(seed uint64, index int, kind string, n drawnFabric) Case {
	part := func(name string) *dice { return newDice(seed, index, name) }
	name, option := "case", ""
	if kind != "" {
		name, option = name+"-"+kind, " --fabric-kind "+kind
	}
	var s settings
	s.drawSwitches(part("switch"), n)
	s.drawHosts(part("host"))
	t := drawTraffic(part("collective"), n, &s)
	f := drawFailure(part("failure"), drawClass(part("class")), n, &s, t.takes)

	c := Case{
		Name: fmt.Sprintf("%s-v%d-%d-%d", name, Version, seed, index), Seed: seed, Index: index,
		Class: f.class, What: f.what, Jobs: t.file, Fabric: n.yaml(), Control: s.control,
		Allowed: allowedTime(f.class, f.detected, n.spec, s.payload), Trip: roundTrip(n.spec, s.payload),
		Threshold: threshold(n.spec, s.buffer, s.alpha),
		Patient:   patientBytes(n.spec, s.rto),
	}
	if t.file != "" {
		t.yaml = "{kind: workload, file: " + c.JobsFile() + "}"
	}
	c.Collective = t.yaml
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %s: ethereal cases%s --seed %d --first %d --count 1\n", f.class, f.what, option, seed, index)
	fmt.Fprintf(&b, "name: %s\nopponents: fair\nfabric: %s\n", c.Name, n.yaml())
	if n.rails {
		fmt.Fprintf(&b, "servers: %s\n", n.servers())
	}
	s.yaml(&b)
	fmt.Fprintf(&b, "collectives: [%s]\nschemes: [%s]\n", t.yaml, strings.Join(opponents(n), ", "))
	fmt.Fprintf(&b, "failures:\n  - name: %s\n", healthyCase)
	if f.class != Healthy {
		fmt.Fprintf(&b, "  - name: %s\n    notifiers: [%s]\n    events:\n", failedCase, f.notifier)
		for _, e := range f.events {
			fmt.Fprintf(&b, "      - %s\n", e)
		}
	}
	fmt.Fprintf(&b, "seeds: %d\n", 1+part("run").below(1000))
	fmt.Fprintf(&b, "deadline: %v\n", (50*fabric.Millisecond+20*t.takes)/fabric.Microsecond*fabric.Microsecond)
	c.Text = b.String()
	return c
}

// allowedTime returns [Case.Allowed] of a class.
func allowedTime(class Class, detected fabric.Time, spec fabric.Spec, payload int64) fabric.Time {
	switch class {
	case Quench:
		return detected
	case GNMI:
		return detected + gnmiPush
	case Late, NotNotified, Flap:
		return 4 * roundTrip(spec, payload)
	}
	return 0
}

// roundTrip returns [Case.Trip].
func roundTrip(spec fabric.Spec, payload int64) fabric.Time {
	return 2 * drawnFabric{spec: spec}.oneWay(payload+header)
}

// header is the approximate length in bytes of a data packet's headers.
const header = 90

// threshold returns [Case.Threshold].
func threshold(spec fabric.Spec, buffer int64, alpha float64) int64 {
	f, err := fabric.New(spec)
	if err != nil {
		panic("cases: " + err.Error()) // a programming error: the limits are within package fabric's
	}
	return int64(scenario.Switch{Buffer: fabric.Bytes(buffer), Alpha: alpha}.QueueLimit(f.MostPorts()))
}

// patientBytes returns [Case.Patient].
func patientBytes(s fabric.Spec, rto fabric.Time) int64 {
	slowest := min(s.HostLink.Rate, s.ToRUplink.Rate)
	if s.Kind != fabric.KindLeafSpine {
		slowest = min(slowest, s.AggUplink.Rate)
	}
	return int64(float64(slowest) / 8 * float64(rto) / 2 / float64(fabric.Second))
}

// opponents returns Ethereal and the schemes that it is compared with.
func opponents(n drawnFabric) []string {
	if n.planes() > 1 {
		return []string{"ethereal", "ecmp", "mp-rdma"} // schemes that choose per packet do not support planes
	}
	if n.spec.Kind == fabric.KindDragonfly {
		return []string{"ethereal", "ecmp", "spray", "ugal"}
	}
	return []string{"ethereal", "ecmp", "spray", "reps"}
}

// violatesPrefix is the prefix of a case file's first line, which lists the violated invariants.
const violatesPrefix = "# violates: "

// Write writes the case's files into a folder and returns the scenario's path. Its first
// line lists the invariants that the case violates, if any.
func (c Case) Write(dir string, violated ...string) (string, error) {
	path := filepath.Join(dir, c.File())
	if len(violated) > 0 {
		c.Text = violatesPrefix + strings.Join(violated, ", ") + "\n" + c.Text
	}
	if c.Jobs != "" {
		if err := os.WriteFile(filepath.Join(dir, c.JobsFile()), []byte(c.Jobs), 0o644); err != nil {
			return "", err
		}
	}
	return path, os.WriteFile(path, []byte(c.Text), 0o644)
}
