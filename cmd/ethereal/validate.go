package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/runner/sweep"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/workload"
)

// fileKind is a kind of file that people write.
type fileKind struct {
	name string
	keys []string // at its top
	// check reads a file as its users do, and describes it in a few words.
	check func(v *validation, path string) (what string, err error)
}

// fileKinds returns all kinds. Of two that a file could be, the first is meant.
func fileKinds() []fileKind {
	return []fileKind{
		{"scenario", strictyaml.KeysOf(scenario.Scenario{}), (*validation).scenario},
		{"sweep", sweep.Keys(), (*validation).sweep},
		{"targets", strictyaml.KeysOf(daemon.File{}), (*validation).targets},
		{"workload", workload.Keys(), (*validation).workload},
		{"fabric", strictyaml.KeysOf(fabric.Spec{}), (*validation).fabricFile},
		{"deployment", strictyaml.KeysOf(deployment.File{}), (*validation).deployment},
		{"groups", nil, (*validation).groups},
	}
}

func kindNames() []string {
	var names []string
	for _, k := range fileKinds() {
		names = append(names, k.name)
	}
	return names
}

// validation is what `ethereal validate` has read so far.
type validation struct {
	fabric *fabric.Fabric // that targets and workloads are for; nil: not known
	world  string         // that scenarios are for
}

// checkedFile is the result of checking one file.
type checkedFile struct {
	File   string      `json:"file"`
	Kind   string      `json:"kind"`
	OK     bool        `json:"ok"`
	What   string      `json:"what,omitempty"` // in it, if it is right
	Errors []fileError `json:"errors,omitempty"`
}

type fileError struct {
	File    string `json:"file"` // which may be one that the file names
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
	Remedy  string `json:"remedy,omitempty"`
}

func (a *app) validateCommand() *cobra.Command {
	var kind, fabricFile, world string
	var keys bool
	var format outputFormat
	c := &cobra.Command{
		Use:   "validate FILE... | --keys [KEY]...",
		Short: "Check files without running anything",
		Long: `Reads scenarios, experiments, sweeps, targets, fabrics, workloads, deployments and groups of ranks as the commands do that
use them, with the files that they name. Each error names file, line, key and remedy. The keys of a file determine its
kind. Names of switches, hosts and ranks are compared with the fabric of --fabric, or with a fabric among the files.
With --keys it prints the keys of scenarios: all of them, or those below the named ones.`,
		Example: `  ethereal validate testbed/scenarios/demo.yaml mininet/experiments/*.yaml
  ethereal validate --fabric fabric.yaml targets.yaml
  ethereal validate --keys host switch.ecn`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !keys {
				return errors.New("validate: name a file, as in ethereal validate testbed/scenarios/demo.yaml")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if keys {
				return printKeys(a.stdout, args, format)
			}
			if kind != "" && !slices.Contains(kindNames(), kind) {
				return fmt.Errorf("--as: %q is unknown; %s", kind, strictyaml.Choose(kind, kindNames()))
			}
			if !slices.Contains(scenario.WorldNames(), world) {
				return fmt.Errorf("--world: %q is unknown; %s", world, strictyaml.Choose(world, scenario.WorldNames()))
			}
			return a.validate(args, &validation{world: world}, kind, fabricFile, format)
		},
	}
	f := c.Flags()
	f.StringVar(&fabricFile, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it; targets and workloads must use its names")
	f.StringVar(&kind, "as", "", "read all files as `KIND`, whatever their keys are: "+strings.Join(kindNames(), ", "))
	f.StringVar(&world, "world", scenario.WorldVirtual, "run in `WORLD`; what this world cannot do is then an error. Worlds: "+strings.Join(scenario.WorldNames(), ", "))
	f.BoolVar(&keys, "keys", false, "print the keys of a scenario with their values, defaults and meaning; arguments are keys such as host")
	format.register(c)
	_ = c.RegisterFlagCompletionFunc("world", cobra.FixedCompletions(scenario.WorldNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(kindNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) validate(files []string, v *validation, kind, fabricFile string, format outputFormat) error {
	if fabricFile != "" {
		if _, err := v.fabricFile(fabricFile); err != nil {
			return err
		}
	}
	kinds := make([]*fileKind, len(files))
	var wrong strictyaml.Errors
	results := make([]checkedFile, len(files))
	for i, path := range files {
		var err error
		results[i].File = path
		if kinds[i], err = kindOf(path, kind); err != nil {
			results[i].add(path, importHint(path, err), &wrong)
			continue
		}
		results[i].Kind = kinds[i].name
	}
	// Fabrics first: others are compared with them.
	for _, fabrics := range []bool{true, false} {
		for i, path := range files {
			if kinds[i] == nil || (kinds[i].name == "fabric") != fabrics {
				continue
			}
			what, err := kinds[i].check(v, path)
			if results[i].What = what; err != nil {
				results[i].add(path, err, &wrong)
			}
			results[i].OK = err == nil
		}
	}
	if err := printChecked(a.stdout, results, format); err != nil {
		return err
	}
	if len(wrong) > 0 {
		return wrong // in the order of the files
	}
	return nil
}

// kindUses maps each kind of file to the command that uses it.
var kindUses = map[string]string{
	"scenario": "ethereal run runs it", "sweep": "ethereal bench runs it", "targets": "ethereal controller --targets reads it",
	"workload": "a scenario's collectives name it", "fabric": "a scenario names it by fabric: FILE, and --fabric reads it",
	"deployment": "ethereal run --deployment reads it",
}

// explainWrongKind returns err, or if a file is of another kind than the one wanted, what it is and what reads it.
func explainWrongKind(path, want string, err error) error {
	if err != nil {
		if what := foreignKind(path); what != "" {
			return errors.New(what)
		}
	}
	if !errors.Is(err, strictyaml.ErrContent) {
		return err
	}
	kind, unknown := kindOf(path, "")
	if unknown != nil || kind.name == want || kindUses[kind.name] == "" {
		return err
	}
	return fmt.Errorf("%s is a file of the kind %s, not a %s: %s", path, kind.name, want, kindUses[kind.name])
}

// add records an error in a file.
func (c *checkedFile) add(path string, err error, all *strictyaml.Errors) {
	es, ok := errors.AsType[strictyaml.Errors](err)
	if !ok {
		es = strictyaml.Errors{unreadableError(path, err)}
	}
	*all = append(*all, es...)
	for _, e := range es {
		c.Errors = append(c.Errors, fileError{e.File, e.Line, e.Column, e.Key, e.Problem, e.Remedy})
	}
}

// unreadableError returns an error about a file that could not be read.
func unreadableError(path string, err error) *strictyaml.Error {
	problem, remedy, _ := strings.Cut(err.Error(), "; ")
	if remedy == "" {
		remedy = "name a file that is there and can be read"
	}
	return &strictyaml.Error{Pos: strictyaml.Pos{File: path}, Problem: problem, Remedy: remedy}
}

// printChecked prints one line per valid file, and the errors of the others.
func printChecked(w io.Writer, results []checkedFile, format outputFormat) error {
	if !format.forPeople() {
		return format.write(w, results)
	}
	for _, r := range results {
		if r.OK {
			if _, err := fmt.Fprintf(w, "%s: %s\n", r.File, r.What); err != nil {
				return failedf("printing: %w", err)
			}
		}
	}
	return nil
}

// kindOf returns the kind that most of a file's keys are of, or the one asked for.
func kindOf(path, asked string) (*fileKind, error) {
	kinds := fileKinds()
	if i := slices.IndexFunc(kinds, func(k fileKind) bool { return k.name == asked }); i >= 0 {
		return &kinds[i], nil
	}
	if strings.HasSuffix(path, ".groups.json") {
		return &kinds[len(kinds)-1], nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	// A targets file is larger than what people write otherwise.
	text, err := strictyaml.ReadLarge(path, max(info.Size(), strictyaml.MaxBytes))
	if err != nil {
		return nil, err
	}
	d := strictyaml.New(path, nil)
	root := d.Document(text, "a scenario, a sweep, targets, a workload, a fabric or a deployment")
	if root == nil {
		return nil, d.Err()
	}
	if root.Kind != yaml.MappingNode {
		d.ComplainAt(root, "", "is no mapping of keys", "write key: value pairs, as in name: demo; `ethereal init` writes files to begin with")
		return nil, d.Err()
	}
	best, most := 0, 0
	for i, k := range kinds {
		known := 0
		for j := 0; j+1 < len(root.Content); j += 2 {
			if slices.Contains(k.keys, root.Content[j].Value) {
				known++
			}
		}
		if known > most {
			best, most = i, known
		}
	}
	if most == 0 {
		d.ComplainAt(root, "", "none of its keys is of a kind of file that is read here", "say what it is meant to be: --as "+strings.Join(kindNames(), "|"))
		return nil, d.Err()
	}
	return &kinds[best], nil
}

func (v *validation) scenario(path string) (string, error) {
	s, err := scenario.Load(path)
	if err != nil {
		return "", err
	}
	runs, err := s.ForWorld(v.world).Expand()
	if err != nil {
		return "", withLines(path, err)
	}
	if err := whyRefused(v.world, runs); err != nil {
		return "", strictyaml.Errors{unreadableError(path, err)}
	}
	what := "a scenario"
	if len(s.Expect) > 0 {
		what = "an experiment"
	}
	what = fmt.Sprintf("%s of %s", what, fabric.Count(len(runs), "run"))
	if hint := s.SeedHint(); hint != "" {
		what += "; " + hint
	}
	return what, nil
}

// withLines adds to errors about a whole scenario the lines of the keys in its file.
func withLines(path string, err error) error {
	es, ok := errors.AsType[strictyaml.Errors](err)
	text, unread := strictyaml.ReadFile(path)
	if !ok || unread != nil {
		return err
	}
	d := strictyaml.New(path, strictyaml.ReadFile)
	if root := d.Document(text, ""); root != nil {
		d.Value(root, new(scenario.Scenario), "")
	}
	for _, e := range es {
		if e.Line == 0 {
			e.Pos = d.At(e.Key)
		}
	}
	return es
}

func (v *validation) sweep(path string) (string, error) {
	s, err := sweep.Load(path)
	if err != nil {
		return "", withLines(path, err)
	}
	return fmt.Sprintf("a sweep of %s", fabric.Count(len(s.Cases), "run")), nil
}

func (v *validation) targets(path string) (string, error) {
	file, err := daemon.ReadFile(path)
	if err != nil {
		return "", err
	}
	what := "targets of " + fabric.Count(len(file.Switches), "switch")
	if v.fabric == nil {
		return what + "; not compared with a fabric: name it with --fabric", nil
	}
	cfg := daemon.Config{Core: controller.Config{Fabric: v.fabric}}
	err = file.Apply(&cfg)
	return strings.Join(append([]string{what}, cfg.Unchecked()...), "; "), err
}

func (v *validation) workload(path string) (string, error) {
	on := workload.Place{}
	if v.fabric != nil {
		on = workload.PlaceOn(v.fabric, 1)
	}
	p, err := workload.Load(path, on)
	if err != nil {
		return "", err
	}
	return strings.Join(append([]string{"a workload of " + fabric.Count(len(p.Ranks), "rank")}, p.Notes()...), "; "), nil
}

func (v *validation) fabricFile(path string) (string, error) {
	spec, err := fabric.LoadSpec(path)
	if err != nil {
		return "", err
	}
	f, err := fabric.New(spec)
	if err != nil {
		return "", err
	}
	v.fabric = f
	return fmt.Sprintf("a fabric of %s and %s", fabric.Count(f.Hosts(), "host"), fabric.Count(f.Switches(), "switch")), nil
}

func (v *validation) deployment(path string) (string, error) {
	d, err := deployment.Load(path)
	if err != nil {
		return "", err
	}
	f, _, err := d.Read()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("a deployment of %s and %s", fabric.Count(f.Hosts(), "host"), fabric.Count(f.Switches(), "switch")), nil
}

func (v *validation) groups(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	g, err := workload.ReadGroups(path)
	return filepath.Base(path) + " has " + fabric.Count(len(g), "group"), err
}
