package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Names of a case's two failure cases.
const (
	healthyCase = "healthy"
	failedCase  = "failed"
)

// Case is one scenario.
type Case struct {
	Name  string // unique among all cases of all seeds
	Seed  uint64
	Index int
	Class Class
	What  string // what fails, in words
	Text  string // the scenario, YAML

	Fabric, Collective, Control string // of the scenario

	Jobs string // content of its workload file, if it has one

	// Allowed is how much longer than the healthy run a run with the failure may take, before it is compared: until
	// hosts are notified, or, where they are not in time, four idle round trips.
	Allowed fabric.Time
	// Threshold is the least length in bytes at which a switch's queue can drop a packet: that of the dynamic threshold
	// if all ports' queues are as long.
	Threshold int64

	// Patient is the number of bytes that the slowest link carries in half the time of the retransmission timer. Behind a
	// longer queue the timer may expire without a loss.
	Patient int64

	path string // of its file; "": none
}

// Delays of the control plane, which no case changes: gNMI notification, computation, push to the agents.
const gnmiPush = 80 * fabric.Microsecond

// File is the name of the scenario's file.
func (c Case) File() string { return c.Name + ".yaml" }

// JobsFile is the name of the workload's file.
func (c Case) JobsFile() string { return c.Name + "-jobs.yaml" }

// Draw returns the case of a seed and an index.
func Draw(seed uint64, index int) Case {
	part := func(name string) *dice { return newDice(seed, index, name) }
	n := drawFabric(part("fabric"))
	var s settings
	s.drawSwitches(part("switch"), n)
	s.drawHosts(part("host"))
	t := drawTraffic(part("collective"), n, &s)
	f := drawFailure(part("failure"), drawClass(part("class")), n, &s, t.takes)

	c := Case{
		Name: fmt.Sprintf("case-v%d-%d-%d", Version, seed, index), Seed: seed, Index: index,
		Class: f.class, What: f.what, Jobs: t.file, Fabric: n.yaml(), Control: s.control,
		Allowed: allowed(f.class, f.detected, n.spec, s.payload), Threshold: threshold(n.spec, s.buffer, s.alpha),
		Patient: patient(n.spec, s.rto),
	}
	if t.file != "" {
		t.yaml = "{kind: workload, file: " + c.JobsFile() + "}"
	}
	c.Collective = t.yaml
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %s: ethereal cases --seed %d --first %d --count 1\n", f.class, f.what, seed, index)
	fmt.Fprintf(&b, "name: %s\nopponents: fair\nfabric: %s\n", c.Name, n.yaml())
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

// allowed returns [Case.Allowed] of a class.
func allowed(class Class, detected fabric.Time, spec fabric.Spec, payload int64) fabric.Time {
	switch class {
	case Quench:
		return detected
	case GNMI:
		return detected + gnmiPush
	case Late, Nobody, Flap:
		return 4 * 2 * network{spec: spec}.oneWay(payload+header)
	}
	return 0
}

// header is about what a data packet has besides its payload.
const header = 90

// threshold returns [Case.Threshold].
func threshold(spec fabric.Spec, buffer int64, alpha float64) int64 {
	f, err := fabric.New(spec)
	if err != nil {
		panic("cases: " + err.Error()) // a programming error: the limits are within package fabric's
	}
	ports := 0
	for i := range f.Switches() {
		ports = max(ports, f.Node(fabric.NodeID(f.Hosts()+i)).Ports())
	}
	return int64(alpha * float64(buffer) / (1 + alpha*float64(ports)))
}

// patient returns [Case.Patient].
func patient(s fabric.Spec, rto fabric.Time) int64 {
	slowest := min(s.HostLink.Rate, s.ToRUplink.Rate)
	if s.Kind == fabric.KindFatTree {
		slowest = min(slowest, s.AggUplink.Rate)
	}
	return int64(float64(slowest) / 8 * float64(rto) / 2 / float64(fabric.Second))
}

// opponents returns Ethereal and the schemes that it is compared with.
func opponents(n network) []string {
	if n.planes() > 1 {
		return []string{"ethereal", "ecmp", "mp-rdma"} // schemes that choose per packet do not support planes
	}
	return []string{"ethereal", "ecmp", "spray", "reps"}
}

// violates begins the first line of a case's file, which lists the invariants that it violates.
const violates = "# violates: "

// Write writes the case's files into a folder and returns the scenario's path. Its first
// line lists the invariants that the case violates, if any.
func (c Case) Write(dir string, violated ...string) (string, error) {
	path := filepath.Join(dir, c.File())
	if len(violated) > 0 {
		c.Text = violates + strings.Join(violated, ", ") + "\n" + c.Text
	}
	if c.Jobs != "" {
		if err := os.WriteFile(filepath.Join(dir, c.JobsFile()), []byte(c.Jobs), 0o644); err != nil {
			return "", err
		}
	}
	return path, os.WriteFile(path, []byte(c.Text), 0o644)
}
