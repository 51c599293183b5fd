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

// Run is one independent simulation. Everything in it is shared with the other
// runs of the scenario and must not be written to.
type Run struct {
	Index      int // in the order of [Scenario.Expand], from 0
	Scenario   *Scenario
	Fabric     *fabric.Fabric
	Scheme     Scheme
	Collective Collective
	Failure    Failure
	Events     []LinkEvent // of the failure, in order of time
	Notifier   Notifier
	Seed       uint64
	// Program is what runs, if the collective is a workload.
	Program *workload.Program

	// Interventions are what happens to the control plane, in any order.
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

// Slug returns the run's number, from 1, and [Run.String] in letters, digits,
// dots and dashes, for use in a file's name.
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

// CollectiveSpec returns the run's collective as [collective.New] takes it.
func (r Run) CollectiveSpec() collective.Spec {
	return r.Collective.Spec(r.Fabric.Hosts(), r.Seed)
}

// maxRuns bounds what a scenario multiplies out to.
const maxRuns = 100_000

// Expand returns the scenario's runs: for each failure case, each of its times, each
// collective, each of the case's notifiers, each scheme, each seed. A case without events
// has the one notifier [NotifyNone]. The error is that of [Scenario.Validate].
func (s *Scenario) Expand() ([]Run, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	f, err := fabric.New(s.slowed())
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, c := range s.Failures {
		times, err := c.moments()
		if err != nil {
			return nil, err
		}
		for i := range times {
			if runs, err = s.expandCase(runs, f, c.moment(i)); err != nil {
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
		var program *workload.Program
		if op.Kind == Workload {
			if program, err = workload.Load(op.File, f.Hosts()); err != nil {
				return nil, err
			}
		}
		for _, n := range notifiers {
			for _, scheme := range s.formed() {
				for _, seed := range s.Seeds {
					if len(runs) == maxRuns {
						return nil, strictyaml.Errors{refusal("", fmt.Sprintf("more than %d runs", maxRuns), "use fewer seeds, schemes or cases")}
					}
					runs = append(runs, Run{
						Index: len(runs), Scenario: s, Fabric: f, Scheme: scheme, Collective: op,
						Failure: c, Events: events[seed], Interventions: interventions, Notifier: n, Seed: seed, Program: program,
					})
				}
			}
		}
	}
	return runs, nil
}

// Override is what flags may replace in a scenario. Empty fields replace
// nothing.
type Override struct {
	Seeds     Seeds
	Schemes   []string   // as [ParseScheme] reads them; a name alone is all of the scenario's with that name
	Notifiers []Notifier // of every case in which something fails
	Carrier   Carrier    // of labels
	// Fabric is what is there to run on: the scenario's gets its nodes, and keeps the
	// rates and delays of its own links.
	Fabric *fabric.Spec
}

// Override returns s with o applied, checked. s stays as it is.
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
		out.Moved = moved(s.Fabric, out.Fabric)
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

// shapedAs returns a fabric with the nodes of one and the links of another. Links of
// a tier that the other lacks are as its uplinks.
func shapedAs(nodes, links fabric.Spec) fabric.Spec {
	nodes.HostLink, nodes.ToRUplink, nodes.AggUplink = links.HostLink, links.ToRUplink, fabric.LinkSpec{}
	if nodes.Kind == fabric.KindFatTree {
		nodes.AggUplink = links.ToRUplink
		if links.Kind == fabric.KindFatTree {
			nodes.AggUplink = links.AggUplink
		}
	}
	return nodes
}

// moved says that a scenario runs on another fabric than its own, if it does.
func moved(from, to fabric.Spec) string {
	was, err := fabric.New(from)
	is, err2 := fabric.New(to)
	if err != nil || err2 != nil {
		return "" // Validate says what is wrong
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
			return nil, strictyaml.Errors{refusal(fmt.Sprintf("schemes[%d]", i), problem, remedy)}
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
