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

// Case is one drawn scenario.
type Case struct {
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
}

// Delays of the control plane, which no case changes: gNMI notification, computation, push to the agents.
const gnmiPush = 80 * fabric.Microsecond

// Name is unique among all cases of all seeds.
func (c Case) Name() string { return fmt.Sprintf("case-v%d-%d-%d", Version, c.Seed, c.Index) }

// File and JobsFile are the names of the case's files.
func (c Case) File() string     { return c.Name() + ".yaml" }
func (c Case) JobsFile() string { return c.Name() + "-jobs.yaml" }

// Draw returns the case of a seed and an index.
func Draw(seed uint64, index int) Case {
	part := func(name string) *dice { return newDice(seed, index, name) }
	n := drawFabric(part("fabric"))
	var s settings
	s.drawSwitches(part("switch"), n)
	s.drawHosts(part("host"))
	t := drawTraffic(part("collective"), n, &s)
	f := drawFailure(part("failure"), drawClass(part("class")), n, t.takes)

	c := Case{Seed: seed, Index: index, Class: f.class, What: f.what, Jobs: t.file, Fabric: n.yaml(), Control: s.control}
	trips := 4 * 2 * n.oneWay(s.payload+90)
	switch f.class {
	case Quench:
		c.Allowed = f.detected
	case GNMI:
		c.Allowed = f.detected + gnmiPush
	case Late, Nobody, Flap:
		c.Allowed = trips
	}
	if t.file != "" {
		t.yaml = "{kind: workload, file: " + c.JobsFile() + "}"
	}
	c.Collective = t.yaml
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %s: ethereal cases --seed %d --first %d --count 1\n", f.class, f.what, seed, index)
	fmt.Fprintf(&b, "name: %s\nopponents: fair\nfabric: %s\n", c.Name(), n.yaml())
	s.yaml(&b)
	fmt.Fprintf(&b, "collectives: [%s]\nschemes: [%s]\nfailures:\n  - name: %s\n", t.yaml, strings.Join(opponents(n), ", "), healthyCase)
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

// opponents returns Ethereal and the schemes that it is compared with.
func opponents(n network) []string {
	if n.planes() > 1 {
		return []string{"ethereal", "ecmp", "mp-rdma"} // the virtual world has no planes for schemes that choose per packet
	}
	return []string{"ethereal", "ecmp", "spray", "reps"}
}

// Write writes the case's files into a folder and returns the scenario's path.
func (c Case) Write(dir string) (string, error) {
	path := filepath.Join(dir, c.File())
	if c.Jobs != "" {
		if err := os.WriteFile(filepath.Join(dir, c.JobsFile()), []byte(c.Jobs), 0o644); err != nil {
			return "", err
		}
	}
	return path, os.WriteFile(path, []byte(c.Text), 0o644)
}
