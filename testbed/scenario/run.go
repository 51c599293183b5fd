package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// Run is one independent simulation. The scenario's runs share its parts, which must not be written to.
type Run struct {
	Index      int // in the order of [Scenario.Expand], from 0
	Scenario   *Scenario
	Fabric     *fabric.Fabric
	Scheme     Scheme
	Collective Collective
	Failure    Failure
	Events     []LinkEvent // the failure's events, in order of time
	Notifier   Notifier
	Seed       uint64
	// Program is the program to run, if the collective is a workload.
	Program *workload.Program

	// Interventions are the events of the control plane, in any order.
	Interventions []Intervention
}

// String names the run within its scenario: "tor0-agg0 cut, all-to-all 16MB,
// gnmi, ecmp, seed 1".
func (r Run) String() string {
	parts := []string{r.Failure.Name, r.Collective.String()}
	if r.Notifier != NotifyNone {
		parts = append(parts, string(r.Notifier))
	}
	return strings.Join(append(parts, r.Scheme.String(), fmt.Sprintf("seed %d", r.Seed)), ", ")
}

// Slug returns the run's number, from 1, and [Run.String] in letters, digits, dots and dashes, for file names.
func (r Run) Slug() string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
			return c
		case c == ',':
			return -1
		}
		return '-'
	}, r.String())
	return fmt.Sprintf("%03d-%s", r.Index+1, name)
}

// CollectiveSpec returns the run's collective in the form of [collective.New].
func (r Run) CollectiveSpec() collective.Spec {
	spec := r.Collective.Spec(r.Fabric.Hosts(), r.Seed)
	if spec.Channels > 0 {
		spec.Server = r.Scenario.Servers.GPUs
	}
	return spec
}

// maxRuns is the largest number of runs of a scenario.
const maxRuns = 100_000

// Expand returns the scenario's runs: for each failure case, each of its times, each collective, each of the case's
// notifiers, each scheme, each seed. A case without events has the only notifier [NotifyNone]. The error is that of
// [Scenario.Validate].
func (s *Scenario) Expand() ([]Run, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	f, err := fabric.New(s.slowedFabric())
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, c := range s.Failures {
		times, err := c.countMoments()
		if err != nil {
			return nil, err
		}
		for i := range times {
			if runs, err = s.expandCase(runs, f, c.atMoment(i)); err != nil {
				return nil, err
			}
		}
	}
	return runs, nil
}

// expandCase adds the runs of a failure case.
func (s *Scenario) expandCase(runs []Run, f *fabric.Fabric, c Failure) ([]Run, error) {
	events, err := c.eventsBySeed(f, s.Seeds)
	if err != nil {
		return nil, err
	}
	interventions, err := c.Interventions(f)
	if err != nil {
		return nil, err
	}
	notifiers := c.Notifiers
	if len(c.Events) == 0 {
		notifiers = []Notifier{NotifyNone}
	}
	for _, op := range s.Collectives {
		programs, err := s.programs(op, f)
		if err != nil {
			return nil, err
		}
		for _, n := range notifiers {
			for _, scheme := range s.schemesInForm() {
				for _, seed := range s.Seeds {
					if len(runs) == maxRuns {
						return nil, strictyaml.Errors{scenarioError("", fmt.Sprintf("more than %d runs", maxRuns), "use fewer seeds, schemes or cases")}
					}
					runs = append(runs, Run{
						Index: len(runs), Scenario: s, Fabric: f, Scheme: scheme, Collective: op,
						Failure: c, Events: events[seed], Interventions: interventions, Notifier: n, Seed: seed, Program: programs[seed],
					})
				}
			}
		}
	}
	return runs, nil
}

// programs returns the program of each seed, if the collective is a workload. Seeds share one that draws nothing.
func (s *Scenario) programs(op Collective, f *fabric.Fabric) (map[uint64]*workload.Program, error) {
	if op.Kind != Workload {
		return nil, nil
	}
	var last *workload.Program
	out := map[uint64]*workload.Program{}
	for _, seed := range s.Seeds {
		if last == nil || last.Random {
			var err error
			if last, err = workload.Load(op.File, workload.PlaceOn(f, seed)); err != nil {
				return nil, err
			}
		}
		out[seed] = last
	}
	return out, nil
}

// Override is the part of a scenario that flags may replace. Empty fields replace nothing.
type Override struct {
	Seeds     Seeds
	Schemes   []string   // in the form of [ParseScheme]; a name alone means all of the scenario's schemes with that name
	Notifiers []Notifier // notifiers for every case with failures
	Carrier   Carrier    // field that carries labels
	// Fabric is the existing fabric: the scenario gets its nodes, and keeps the rates and delays of its own links.
	Fabric *fabric.Spec
}

// Override returns a checked copy of s with o applied. s does not change.
func (s *Scenario) Override(o Override) (*Scenario, error) {
	out := *s
	if len(o.Seeds) > 0 {
		out.Seeds = o.Seeds
	}
	if len(o.Schemes) > 0 {
		var err error
		if out.Schemes, err = s.overrideSchemes(o.Schemes); err != nil {
			return nil, err
		}
	}
	if o.Carrier != "" {
		out.Host.Carrier = o.Carrier
		out.Host.IPv6 = out.Host.IPv6 || o.Carrier == IPv6FlowLabel
	}
	if o.Fabric != nil {
		out.Fabric = shapedAs(*o.Fabric, s.Fabric)
		out.Moved = fabricMoved(s.Fabric, out.Fabric)
	}
	if len(o.Notifiers) > 0 {
		out.Failures = slices.Clone(s.Failures)
		for i := range out.Failures {
			if len(out.Failures[i].Events) > 0 {
				out.Failures[i].Notifiers = o.Notifiers
			}
		}
	}
	if err := out.Validate(); err != nil {
		return nil, err
	}
	return &out, nil
}

// shapedAs returns a fabric with the node counts of one spec and the link rates and delays of another. If the other has
// no links of a tier, the rates of its ToR uplinks are used.
func shapedAs(nodes, links fabric.Spec) fabric.Spec {
	nodes.HostLink, nodes.ToRUplink, nodes.AggUplink = links.HostLink, links.ToRUplink, fabric.LinkSpec{}
	if nodes.Kind != fabric.KindLeafSpine {
		nodes.AggUplink = links.ToRUplink
		if links.Kind != fabric.KindLeafSpine {
			nodes.AggUplink = links.AggUplink
		}
	}
	return nodes
}

// fabricMoved describes on which other fabric than its own a scenario runs, if it does.
func fabricMoved(from, to fabric.Spec) string {
	was, err := fabric.New(from)
	is, err2 := fabric.New(to)
	if err != nil || err2 != nil {
		return "" // Validate reports the error
	}
	size := func(f *fabric.Fabric) string {
		return fmt.Sprintf("%s, %s, %s, %s and %s", fabric.Count(f.Hosts(), "host"), fabric.Count(f.ToRs(), "ToR"),
			fabric.Count(f.Aggs(), "aggregation switch"), fabric.Count(f.Cores(), "core or spine switch"), fabric.Count(f.Links(), "link"))
	}
	if size(was) == size(is) {
		return ""
	}
	return fmt.Sprintf("the fabric is the deployment's, of %s, instead of %s", size(is), size(was))
}

// overrideSchemes returns the schemes that texts name.
func (s *Scenario) overrideSchemes(texts []string) ([]Scheme, error) {
	var out []Scheme
	for i, text := range texts {
		want, err := ParseScheme(text)
		if err != nil {
			problem, remedy, _ := strings.Cut(err.Error(), "; ")
			return nil, strictyaml.Errors{scenarioError(fmt.Sprintf("schemes[%d]", i), problem, remedy)}
		}
		found := false
		for _, known := range s.Schemes {
			if known.String() == want.String() || want.Params == nil && known.Name == want.Name {
				out, found = append(out, known), true
			}
		}
		if !found {
			out = append(out, want)
		}
	}
	return out, nil
}
