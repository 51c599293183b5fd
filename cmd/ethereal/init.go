package main

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// initFiles has the files that `ethereal init` writes. All but the targets are written as they are.
//
//go:embed begin
var initFiles embed.FS

// initFileNames are the files of begin, in the order in which one reads them.
var initFileNames = []string{"fabric.yaml", "scenario.yaml", "experiment.yaml", "targets.yaml", chipP4Info}

// chipP4Info is the P4Info of a chip's program, beside targets that name it.
const chipP4Info = "p4info.txtpb"

// First ports of the switches and agents in the targets that are written.
const (
	firstSwitchPort = 9601
	firstAgentPort  = 9801
)

func (a *app) initCommand() *cobra.Command {
	var fabricFile, profile string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write annotated files to start from: fabric, scenario, experiment, targets",
		Long: `Writes fabric.yaml, scenario.yaml, experiment.yaml and targets.yaml into a folder (default: the working folder), with a
comment at every key. validate accepts these files, and run carries out the scenario and the experiment. If one of the
files exists, none is written.`,
		Example: `  ethereal init first
  ethereal init lab --fabric fabric.yaml
  ethereal init lab --profile stratum-tofino`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return a.init(dir, fabricFile, profile)
		},
	}
	c.Flags().StringVar(&fabricFile, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it; by default a fabric of 16 hosts and 6 switches")
	f := kinds.All().Names()
	c.Flags().StringVar(&profile, "profile", targets.Default, "write targets for switches of `KIND`: "+strings.Join(f, ", "))
	_ = c.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(f, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) init(dir, fabricFile, profile string) error {
	kind, err := kinds.All().ByName(profile)
	if err != nil {
		return fmt.Errorf("--profile: %q is unknown; %s", profile, strictyaml.Choose(profile, kinds.All().Names()))
	}
	texts, err := initTexts(dir, fabricFile, kind)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("init: %w; name a folder that can be written", err)
	}
	var names []string
	for _, name := range initFileNames {
		if texts[name] == nil {
			continue
		}
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("init: %s is there already, and nothing is overwritten; use the files in %s, or name another folder", path, dir)
		}
		names = append(names, name)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := writeNew(path, texts[name]); err != nil {
			return failedf("init: %w", err)
		}
		fmt.Fprintf(a.stdout, "wrote %s\n", path) //nolint:errcheck // the files are there
	}
	_, err = fmt.Fprintf(a.stdout, `next: ethereal run %s --html %s
targets.yaml is for switches that you start, each with its device_id and its interfaces:
  ethereal switch --no-p4 --device-id ID -i 1@IFACE -i 2@IFACE ... -- --cpu-port %d --grpc-server-addr ADDRESS
without any: ethereal live up --fabric %s starts switches, agents and a controller on this machine
`, filepath.Join(dir, "scenario.yaml"), filepath.Join(dir, "report.html"), p4src.CPUPort, cmp.Or(fabricFile, filepath.Join(dir, "fabric.yaml")))
	return err
}

// writeNew writes a file that is not there yet.
func writeNew(path string, text []byte) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	defer closeFile(file, &err)
	_, err = file.Write(text)
	return err
}

// initTexts returns the files' texts, for the fabric that a file has if one is named, and for a kind of switch.
func initTexts(dir, fabricFile string, kind *targets.Profile) (map[string][]byte, error) {
	texts := map[string][]byte{chipP4Info: p4src.ChipP4Info(kind.Program().Name)}
	for _, name := range initFileNames[:len(initFileNames)-1] {
		text, err := initFiles.ReadFile("begin/" + name)
		if err != nil {
			return nil, err
		}
		texts[name] = text
	}
	named := "fabric.yaml"
	spec, err := fabric.ParseSpec(named, texts[named])
	if fabricFile != "" {
		if spec, err = fabric.LoadSpec(fabricFile); err != nil {
			return nil, err
		}
		if named, err = relativePath(dir, fabricFile); err != nil {
			return nil, err
		}
		delete(texts, "fabric.yaml")
		for _, name := range []string{"scenario.yaml", "experiment.yaml"} {
			texts[name] = bytes.Replace(texts[name], []byte("fabric: fabric.yaml"), []byte("fabric: "+yamlQuoted(named)), 1)
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := fabric.NewSinglePlane(spec, "what init writes")
	if err != nil {
		return nil, err
	}
	texts["targets.yaml"], err = initTargets(string(texts["targets.yaml"]), named, f, kind)
	return texts, err
}

// relativePath returns the path of a file from a folder.
func relativePath(dir, file string) (string, error) {
	from, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	to, err := filepath.Abs(file)
	if err != nil {
		return "", fmt.Errorf("init: %w", err)
	}
	return filepath.Rel(from, to)
}

// yamlQuoted returns a name as YAML text, whatever is in it.
func yamlQuoted(name string) string { return "'" + strings.ReplaceAll(name, "'", "''") + "'" }

// initTargets fills the targets' text in for a fabric.
func initTargets(text, fabricFile string, f *fabric.Fabric, kind *targets.Profile) ([]byte, error) {
	type place struct {
		Name         string
		Port, Device int
		Ports        string
	}
	data := struct {
		FabricFile, Name string
		Switches, Hosts  []place
		Kind             *targets.Profile
		Program          targets.Program
		Default          bool
		ECN              string
	}{FabricFile: fabricFile, Name: "targets.yaml", Kind: kind, Program: kind.Program(), Default: kind.Name == targets.Default}
	data.ECN = "{kmin: 60KB, kmax: 240KB, pmax: 0.2, unit: 1500B}"
	if kind.QueueUnit > 0 {
		data.ECN = fmt.Sprintf("{kmin: 400KB, kmax: 1600KB, pmax: 0.2, unit: %dB}", kind.QueueUnit)
	}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		p := place{Name: f.Name(id), Port: firstSwitchPort + i, Device: int(id) + 1}
		if n := f.Node(id).Ports(); kind.NeedsPorts {
			if last := 4 * (n - 1); last > targets.MaxDevicePort {
				return nil, fmt.Errorf("init: --profile: %s has %d ports; a %s has at most %d of four lanes", p.Name, n, kind.Name, targets.MaxDevicePort/4+1)
			}
			for i := range n {
				switch {
				case i > 0 && i%3 == 0:
					p.Ports += ",\n            "
				case i > 0:
					p.Ports += ", "
				}
				p.Ports += fmt.Sprintf("{name: %d/0, id: %d, lanes: 4}", i+1, 4*i)
			}
		}
		data.Switches = append(data.Switches, p)
	}
	for h := range f.Hosts() {
		data.Hosts = append(data.Hosts, place{Name: f.Name(fabric.NodeID(h)), Port: firstAgentPort + h})
	}
	t, err := template.New("targets.yaml").Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.Bytes(), err
}
