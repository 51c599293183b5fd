package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
)

// TestScenarios runs the text files of testdata. Commands:
//
//	fabric KIND key=value...      a new core: k, pods, tors, aggs, cores, spines,
//	                              hosts, group-size
//	fail LINK... [at=TIME]        both ends report down
//	restore LINK... [at=TIME]     both ends report up
//	report NODE PORT up|down [at=TIME]   one end does
//	tables NODE [TABLE...]        the desired tables
//	snapshot                      what an agent would get first
//
// The three in the middle print what the core then wants: notices, and updates
// by stage and switch; with the word "unseen", the core is not asked yet. Updates
// of IPv4 routes stand for those of both families.
func TestScenarios(t *testing.T) {
	goldentest.Scenarios(t, "testdata", func() func(*datadriven.TestData) (string, error) {
		var c *Core
		return func(d *datadriven.TestData) (string, error) { return runScenario(&c, d) }
	})
}

func runScenario(c **Core, d *datadriven.TestData) (string, error) {
	var at fabric.Time
	words, err := goldentest.Words(d, &at)
	if err != nil {
		return "", err
	}
	switch d.Cmd {
	case "fabric":
		return "", newScenario(c, d)
	case "fail", "restore":
		for _, w := range words {
			if w == "unseen" {
				continue
			}
			id, err := (*c).f.LinkByName(w)
			if err != nil {
				return "", err
			}
			l := (*c).f.Link(id)
			for _, e := range []fabric.End{l.A, l.B} {
				if err := (*c).PortState(at, e.Node, e.Port, d.Cmd == "restore"); err != nil {
					return "", err
				}
			}
		}
		return printReady(*c, words), nil
	case "report":
		id, err := (*c).f.NodeByName(words[0])
		if err != nil {
			return "", err
		}
		port, err := strconv.Atoi(words[1])
		if err != nil {
			return "", err
		}
		if err := (*c).PortState(at, id, fabric.PortNo(port), words[2] == "up"); err != nil {
			return "", err
		}
		return printReady(*c, words), nil
	case "tables":
		id, err := (*c).f.NodeByName(words[0])
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for _, e := range (*c).Desired(id) {
			if len(words) == 1 || strings.Contains(" "+strings.Join(words[1:], " ")+" ", " "+e.Table.String()+" ") {
				fmt.Fprintln(&b, e)
			}
		}
		return b.String(), nil
	case "snapshot":
		u := (*c).Snapshot()
		var b strings.Builder
		fmt.Fprintf(&b, "epoch %d\n", u.GetEpoch())
		for _, l := range u.GetLinks() {
			fmt.Fprintf(&b, "%s up=%v epoch=%d at=%dns\n", (*c).f.LinkName(fabric.LinkID(l.GetLink())), l.GetUp(), l.GetEpoch(), l.GetTimeNs())
		}
		return b.String(), nil
	}
	return "", fmt.Errorf("%s: unknown command %s", d.Pos, d.Cmd)
}

func newScenario(c **Core, d *datadriven.TestData) error {
	spec := fabric.Spec{Kind: d.CmdArgs[0].Key}
	groupSize := 0
	for _, a := range d.CmdArgs[1:] {
		n, err := strconv.Atoi(a.Vals[0])
		if err != nil {
			return err
		}
		into, ok := map[string]*int{
			"k": &spec.K, "pods": &spec.Pods, "aggs": &spec.AggsPerPod, "cores": &spec.Cores,
			"spines": &spec.Spines, "hosts": &spec.HostsPerToR, "group-size": &groupSize,
		}[a.Key]
		switch {
		case a.Key == "tors" && spec.Kind == fabric.KindLeafSpine:
			into = &spec.ToRs
		case a.Key == "tors":
			into = &spec.ToRsPerPod
		case !ok:
			return fmt.Errorf("unknown key %s", a.Key)
		}
		*into = n
	}
	f, err := fabric.New(spec)
	if err != nil {
		return err
	}
	cfg := testConfig(f)
	cfg.MaxGroupSize = groupSize
	*c, err = New(cfg)
	return err
}

func printReady(c *Core, words []string) string {
	if slices.Contains(words, "unseen") {
		return ""
	}
	r := c.Ready()
	var b strings.Builder
	for _, n := range r.Notices {
		for _, l := range n.GetLinks() {
			fmt.Fprintf(&b, "notice %d: %s up=%v epoch=%d at=%dns\n",
				n.GetEpoch(), c.f.LinkName(fabric.LinkID(l.GetLink())), l.GetUp(), l.GetEpoch(), l.GetTimeNs())
		}
	}
	for _, d := range r.Writes {
		fmt.Fprintf(&b, "stage %d %s\n", d.Stage, c.f.Name(d.Node))
		for _, u := range d.Updates {
			if u.Entry.Table != RouteV6 {
				fmt.Fprintf(&b, "  %v\n", u)
			}
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
