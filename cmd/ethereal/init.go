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

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// begin has the files that `ethereal init` writes. All but the targets are written as they are.
//
//go:embed begin
var begin embed.FS

// beginFiles are the files of begin, in the order in which one reads them.
var beginFiles = []string{"fabric.yaml", "scenario.yaml", "experiment.yaml", "targets.yaml"}

// First ports of the switches and agents in the targets that are written.
const (
	beginSwitchPort = 9601
	beginAgentPort  = 9801
)

func (a *app) initCommand() *cobra.Command {
	var fabricFile string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write annotated files to start from: fabric, scenario, experiment, targets",
		Long: `Writes fabric.yaml, scenario.yaml, experiment.yaml and targets.yaml into a folder (default: the working folder), with a
comment at every key. validate accepts these files, and run carries out the scenario and the experiment. If one of the
files exists, none is written.`,
		Example: `  ethereal init first
  ethereal init lab --fabric fabric.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return a.init(dir, fabricFile)
		},
	}
	c.Flags().StringVar(&fabricFile, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it; by default a fabric of 16 hosts and 6 switches")
	return c
}

func (a *app) init(dir, fabricFile string) error {
	texts, err := beginTexts(dir, fabricFile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("init: %w; name a folder that can be written", err)
	}
	var names []string
	for _, name := range beginFiles {
		if _, ok := texts[name]; !ok {
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
			return failure("init: %w", err)
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

// beginTexts returns the files' texts, for the fabric that a file has if one is named.
func beginTexts(dir, fabricFile string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, name := range beginFiles {
		text, err := begin.ReadFile("begin/" + name)
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
		if named, err = relative(dir, fabricFile); err != nil {
			return nil, err
		}
		delete(texts, "fabric.yaml")
		for _, name := range []string{"scenario.yaml", "experiment.yaml"} {
			texts[name] = bytes.Replace(texts[name], []byte("fabric: fabric.yaml"), []byte("fabric: "+quoted(named)), 1)
		}
	}
	if err != nil {
		return nil, err
	}
	f, err := fabric.NewSinglePlane(spec, "what init writes")
	if err != nil {
		return nil, err
	}
	texts["targets.yaml"], err = beginTargets(string(texts["targets.yaml"]), named, f)
	return texts, err
}

// relative returns the path of a file from a folder.
func relative(dir, file string) (string, error) {
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

// quoted returns a name as YAML text, whatever is in it.
func quoted(name string) string { return "'" + strings.ReplaceAll(name, "'", "''") + "'" }

// beginTargets fills the targets' text in for a fabric.
func beginTargets(text, fabricFile string, f *fabric.Fabric) ([]byte, error) {
	type place struct {
		Name         string
		Port, Device int
	}
	data := struct {
		FabricFile, Name string
		Switches, Hosts  []place
	}{FabricFile: fabricFile, Name: "targets.yaml"}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		data.Switches = append(data.Switches, place{f.Name(id), beginSwitchPort + i, int(id) + 1})
	}
	for h := range f.Hosts() {
		data.Hosts = append(data.Hosts, place{Name: f.Name(fabric.NodeID(h)), Port: beginAgentPort + h})
	}
	t, err := template.New("targets.yaml").Parse(text)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.Bytes(), err
}
