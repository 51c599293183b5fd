package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// topoFlags are the flags of `ethereal topo`.
type topoFlags struct {
	format         outputFormat
	file, scenario string
	spec           fabric.Spec
	rate, delay    string
	given          []string // which of the flags that shape a fabric
}

func (a *app) topoCommand() *cobra.Command {
	var flags topoFlags
	c := &cobra.Command{
		Use:   "topo",
		Short: "Print a fabric: as a file to edit, as JSON with addresses, or as a graph",
		Long: `Prints a fabric: as the YAML that scenarios and --fabric read, with defaults filled in; as JSON with all nodes, ports,
links and addresses; or as a Graphviz graph. The fabric comes from a fabric file, from a scenario, or from flags; without
flags it is the fat-tree with k=4.`,
		Example: `  ethereal topo --kind fat-tree --k 8 > fabric.yaml
  ethereal topo --scenario testbed/scenarios/demo.yaml -o json
  ethereal topo --kind leaf-spine --tors 4 --spines 2 --hosts-per-tor 4 -o dot | dot -Tsvg > fabric.svg`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("topo takes no arguments; name a fabric file with --fabric %s", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range slices.Concat(countFlags, []string{"kind", "rate", "delay"}) {
				if c.Flags().Changed(name) {
					flags.given = append(flags.given, name)
				}
			}
			return a.topo(flags)
		},
	}
	f := c.Flags()
	flags.format.register(c, formatYAML, formatJSON, formatDOT)
	f.StringVar(&flags.file, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&flags.scenario, "scenario", "", "use the fabric of the scenario in `FILE`")
	f.StringVar(&flags.spec.Kind, "kind", fabric.KindFatTree, "make a fabric of `KIND`: fat-tree, leaf-spine or dragonfly")
	f.IntVar(&flags.spec.K, "k", 0, "make a fat-tree of switches with `N` ports; counts that are not given are computed from N")
	f.IntVar(&flags.spec.Pods, "pods", 0, "fat-tree: `N` pods")
	f.IntVar(&flags.spec.ToRsPerPod, "tors-per-pod", 0, "fat-tree, dragonfly: `N` ToRs in a pod")
	f.IntVar(&flags.spec.AggsPerPod, "aggs-per-pod", 0, "fat-tree: `N` aggregation switches in a pod")
	f.IntVar(&flags.spec.Cores, "core-switches", 0, "fat-tree: `N` core switches, a multiple of --aggs-per-pod")
	f.IntVar(&flags.spec.ToRs, "tors", 0, "leaf-spine: `N` ToRs")
	f.IntVar(&flags.spec.Spines, "spines", 0, "leaf-spine: `N` spines")
	f.IntVar(&flags.spec.GlobalLinks, "global-links", 0, "dragonfly: `N` links of a ToR to other pods")
	f.IntVar(&flags.spec.HostsPerToR, "hosts-per-tor", 0, "`N` hosts under a ToR")
	f.IntVar(&flags.spec.Planes, "planes", 0, "`N` such fabrics side by side, each host with a port into each")
	f.StringVar(&flags.rate, "rate", "", "rate of links, `RATE`, as in 100Gb/s")
	f.StringVar(&flags.delay, "delay", "", "propagation delay of links, one way, `DURATION`, as in 0.5us")
	// The only error is of a flag that does not exist.
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{fabric.KindFatTree, fabric.KindLeafSpine, fabric.KindDragonfly}, cobra.ShellCompDirectiveNoFileComp))
	c.AddCommand(newTopoCheckCommand())
	return c
}

// countFlags are the flags that say how many of what a fabric has. Their names are those of a fabric's keys, with
// dashes, but for cores: --cores is the processor's.
var countFlags = []string{"k", "pods", "tors-per-pod", "aggs-per-pod", "core-switches", "tors", "spines", "hosts-per-tor", "global-links", "planes"}

func (a *app) topo(flags topoFlags) error {
	spec, err := flags.read()
	if err != nil {
		return err
	}
	f, err := fabric.New(spec)
	if err != nil {
		return errorInFlagNames(err)
	}
	var out []byte
	switch flags.format.String() {
	case formatYAML:
		out, err = topoYAML(f)
	case formatJSON:
		return flags.format.write(a.stdout, newTopology(f))
	case formatDOT:
		out = fabricDOT(f, nil)
	}
	if err != nil {
		return failedf("topo: %w", err)
	}
	if _, err := a.stdout.Write(out); err != nil {
		return failedf("topo: %w", err)
	}
	return nil
}

// read returns the fabric that the flags describe or name.
func (flags topoFlags) read() (fabric.Spec, error) {
	sources := 0
	for _, given := range []bool{flags.file != "", flags.scenario != "", len(flags.given) > 0} {
		if given {
			sources++
		}
	}
	switch {
	case sources > 1:
		return fabric.Spec{}, fmt.Errorf("--fabric, --scenario and flags that shape a fabric exclude each other; keep one")
	case flags.file != "":
		spec, err := fabric.LoadSpec(flags.file)
		return spec, importHint(flags.file, err)
	case flags.scenario != "":
		s, err := scenario.Load(flags.scenario)
		if err != nil {
			return fabric.Spec{}, err
		}
		return s.Fabric, nil
	}
	return flags.shape()
}

// shape returns the fabric that the flags about its shape describe.
func (flags topoFlags) shape() (fabric.Spec, error) {
	spec := flags.spec
	counts := map[string]int{
		"k": spec.K, "pods": spec.Pods, "tors-per-pod": spec.ToRsPerPod, "aggs-per-pod": spec.AggsPerPod,
		"core-switches": spec.Cores, "tors": spec.ToRs, "spines": spec.Spines, "hosts-per-tor": spec.HostsPerToR, "global-links": spec.GlobalLinks, "planes": spec.Planes,
	}
	counted := false
	for _, name := range countFlags {
		if slices.Contains(flags.given, name) {
			counted = true
			if counts[name] < 1 {
				return spec, fmt.Errorf("--%s: %d; write 1 or more, or leave it out", name, counts[name])
			}
		}
	}
	switch spec.Kind {
	case fabric.KindLeafSpine:
		var missing []string
		for _, name := range []string{"tors", "spines", "hosts-per-tor"} {
			if counts[name] == 0 {
				missing = append(missing, "--"+name)
			}
		}
		if len(missing) > 0 {
			return spec, fmt.Errorf("--kind leaf-spine: %s missing; write for example --tors 4 --spines 4 --hosts-per-tor 4",
				strings.Join(missing, ", "))
		}
	case fabric.KindFatTree:
		if !counted {
			spec.K = 4
		}
	}
	if flags.rate == "" && flags.delay == "" {
		return spec, nil
	}
	link := fabric.LinkSpec{Rate: fabric.DefaultRate, Delay: fabric.DefaultDelay}
	if flags.rate != "" {
		if err := link.Rate.UnmarshalText([]byte(flags.rate)); err != nil {
			return spec, fmt.Errorf("--rate: %s", strings.TrimPrefix(err.Error(), "fabric: "))
		}
		if link.Rate == 0 {
			return spec, fmt.Errorf("--rate: a link of no rate carries nothing; write for example 400Gb/s")
		}
	}
	if flags.delay != "" {
		if err := link.Delay.UnmarshalText([]byte(flags.delay)); err != nil {
			return spec, fmt.Errorf("--delay: %s", strings.TrimPrefix(err.Error(), "fabric: "))
		}
	}
	spec.HostLink, spec.ToRUplink, spec.AggUplink = link, link, link
	return spec, nil
}

// fabricKey finds keys of a fabric in an error.
var fabricKey = regexp.MustCompile(`\b(k|pods|tors_per_pod|aggs_per_pod|cores|tors|spines|hosts_per_tor|global_links|kind)\b`)

// errorInFlagNames words an error about a fabric's keys for those who wrote flags.
func errorInFlagNames(err error) error {
	text, ok := strings.CutPrefix(err.Error(), fabric.ErrSpec.Error()+": ")
	if !ok {
		return err
	}
	lead, rest, _ := strings.Cut(text, ": ")
	named := func(s string) string {
		return fabricKey.ReplaceAllStringFunc(s, func(k string) string {
			if k == "cores" {
				k = "core-switches"
			}
			return "--" + strings.ReplaceAll(k, "_", "-")
		})
	}
	return fmt.Errorf("%s: %s", named(lead), named(rest))
}

// topoYAML returns f as the text of a fabric file.
func topoYAML(f *fabric.Fabric) ([]byte, error) {
	s := f.Spec()
	switch s.Kind {
	case fabric.KindDragonfly:
		s.Pods = 0 // derived
	case fabric.KindLeafSpine:
		// Derived counts that a leaf-spine does not take.
		s.Pods, s.ToRsPerPod, s.AggsPerPod, s.Cores, s.AggUplink = 0, 0, 0, 0, fabric.LinkSpec{}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %d hosts, %d ToRs, %d aggregation switches, %d cores or spines, %d links\n",
		f.Hosts(), f.ToRs(), f.Aggs(), f.Cores(), f.Links())
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// fabricDOT returns the fabric as a Graphviz graph, tier over tier, with more
// attributes for some links, by name.
func fabricDOT(f *fabric.Fabric, more map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString("graph fabric {\n  rankdir=BT; ranksep=1.2; splines=false;\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n")
	colour := map[fabric.Tier]string{fabric.Host: "#e5e7eb", fabric.ToR: "#bfdbfe", fabric.Aggregation: "#bbf7d0", fabric.Core: "#fde68a"}
	tier := fabric.Tier(255)
	for i := range f.Nodes() {
		n := f.Node(fabric.NodeID(i))
		if n.Tier != tier {
			if tier != 255 {
				b.WriteString("  }\n")
			}
			tier = n.Tier
			fmt.Fprintf(&b, "  { rank=same; node [fillcolor=%q];\n", colour[tier])
		}
		if n.Tier == fabric.Host {
			fmt.Fprintf(&b, "    %s [tooltip=\"%s %s\"];\n", f.Name(n.ID), f.HostAddr4(n.ID), f.HostAddr6(n.ID))
		} else {
			fmt.Fprintf(&b, "    %s;\n", f.Name(n.ID))
		}
	}
	b.WriteString("  }\n")
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		attributes := more[f.LinkName(l.ID)]
		if attributes != "" {
			attributes = " " + attributes
		}
		fmt.Fprintf(&b, "  %s -- %s [tooltip=\"%s, %v\"%s];\n", f.Name(l.A.Node), f.Name(l.B.Node), l.Rate, l.Delay, attributes)
	}
	b.WriteString("}\n")
	return b.Bytes()
}
