package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/testbed/importer"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

func (a *app) importCommand() *cobra.Command {
	o := importer.Options{}
	var dir, rate string
	c := &cobra.Command{
		Use:   "import KIND FILE... --dir DIR",
		Short: "Make a scenario of other programs' workloads and topologies",
		Long: `Reads files of another program, a workload, a topology or one of each, and writes a scenario that run carries out:
scenario.yaml with the fabric, and workload.yaml with the workload. What the files have and a scenario has not is said on
standard error and in the scenario. Kinds:

  aicb    workloads of AICB (CSV)
  hpcc    topologies and flows of HPCC's ns-3
  htsim   connection matrices (.cm) and topologies (.topo) of htsim
  nccl    topologies and graphs of NCCL (XML, as NCCL_TOPO_DUMP_FILE and NCCL_GRAPH_DUMP_FILE name them)
  simai   workloads and topologies of SimAI`,
		Example: `  ethereal import htsim incast.cm leaf_spine.topo --dir incast
  ethereal import hpcc flow.txt fat.txt --dir hpcc && ethereal run hpcc/scenario.yaml
  ethereal import nccl topo.xml graph.xml --servers 4 --dir nccl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("import: write a kind (%s) and a file, as in ethereal import htsim incast.cm --dir incast",
					strings.Join(importer.Kinds(), ", "))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return importer.Kinds(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case dir == "":
				return errors.New("import: write --dir DIR, the folder for scenario.yaml and workload.yaml")
			case o.Starts != "" && o.Starts != "us" && o.Starts != "ps":
				return fmt.Errorf("--starts: %q; write us or ps", o.Starts)
			case rate != "" && (o.Rate.UnmarshalText([]byte(rate)) != nil || o.Rate == 0 || o.Rate > fabric.MaxRate):
				return fmt.Errorf("--nic-rate: %q; write up to %v, for example 200Gb/s", rate, fabric.MaxRate)
			case o.Servers < 1 || o.Servers > fabric.MaxPlaneHosts:
				return fmt.Errorf("--servers: %d; write 1 or more", o.Servers)
			case o.Ranks < 0 || o.Ranks > fabric.MaxPlaneHosts:
				return fmt.Errorf("--world-size: %d; write 2 to %d", o.Ranks, fabric.MaxPlaneHosts)
			}
			return a.importFiles(args[0], args[1:], dir, o)
		},
	}
	f := c.Flags()
	f.StringVar(&dir, "dir", "", "use the folder `DIR`; it is made, and files that are there are not overwritten")
	f.IntVar(&o.Servers, "servers", 2, "nccl: `N` servers as the file describes one")
	f.StringVar(&o.Starts, "starts", "", "htsim: start times are in `UNIT`, us or ps (default: us, unless they are a second or more)")
	f.StringVar(&rate, "nic-rate", "", "nccl: network interfaces without a speed have `RATE` (default 400Gb/s)")
	f.IntVar(&o.Ranks, "world-size", 0, "simai, aicb: `N` ranks in all, if the workload does not say it or is to have fewer")
	return c
}

// importFiles writes the scenario of other programs' files, and checks it as validate does.
func (a *app) importFiles(kind string, files []string, dir string, o importer.Options) error {
	im, err := importer.Read(kind, files, o)
	if err != nil {
		return err
	}
	text, more, err := im.Scenario(filepath.Base(filepath.Clean(dir)))
	if err != nil {
		return err
	}
	main, load := filepath.Join(dir, importer.ScenarioFile), filepath.Join(dir, importer.WorkloadFile)
	for _, path := range []string{main, load} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--dir: %s is there already, and nothing is overwritten; name another folder", path)
		}
	}
	var work strings.Builder
	if im.Ranks > 0 {
		if err := im.Workload(&work); err != nil {
			return failedf("import: %w", err)
		}
	}
	what, err := checkImported(text, work.String())
	if wrong, ok := errors.AsType[strictyaml.Errors](err); ok {
		for _, e := range wrong {
			e.Pos = strictyaml.Pos{File: strings.Join(files, " and ")}
			e.Problem += " in the scenario, so nothing was written"
		}
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("--dir: %w; name a folder that can be written", err)
	}
	if im.Ranks > 0 {
		if err := writeNew(load, []byte(work.String())); err != nil {
			return failedf("import: %w", err)
		}
	}
	if err := writeNew(main, text); err != nil {
		return failedf("import: %w", errors.Join(err, os.RemoveAll(load)))
	}
	for _, note := range append(im.Notes, more...) {
		fmt.Fprintf(a.stderr, "warning: %s\n", note)
	}
	_, err = fmt.Fprintf(a.stdout, "wrote %s: %s\nnext: ethereal run %s\n", main, what, main)
	return err
}

// checkImported validates an imported scenario and workload in a temporary folder, and returns a one-line description.
func checkImported(text []byte, work string) (what string, err error) {
	dir, err := os.MkdirTemp("", "ethereal-import")
	if err != nil {
		return "", failedf("import: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, importer.ScenarioFile)
	if err := errors.Join(os.WriteFile(path, text, 0o600), os.WriteFile(filepath.Join(dir, importer.WorkloadFile), []byte(work), 0o600)); err != nil {
		return "", failedf("import: %w", err)
	}
	s, err := scenario.Load(path)
	if err != nil {
		return "", err
	}
	runs, err := s.Expand()
	if err != nil {
		return "", withLines(path, err)
	}
	r := runs[0]
	what = fmt.Sprintf("%s and %s", fabric.Count(r.Fabric.Hosts(), "host"), fabric.Count(r.Fabric.Switches(), "switch"))
	if r.Program == nil {
		return what, nil
	}
	all, err := r.Program.Traffic()
	total := int64(0)
	for _, m := range all {
		total += m.Bytes
	}
	return fmt.Sprintf("%s, %s with %d bytes", what, fabric.Count(len(all), "message"), total), err
}

// importHint returns err or, if the file is in the format of another program, an error that names the format and the
// import command.
func importHint(path string, err error) error {
	if err == nil {
		return nil
	}
	if what := foreignKind(path); what != "" {
		return errors.New(what)
	}
	return err
}

// foreignKind returns the format of another program's file and the command that imports it; "" for other files.
func foreignKind(path string) string {
	kind, what, ok := importer.RecogniseFile(path)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s is %s; `ethereal import %s %s --dir DIR` makes a scenario of it", path, what, kind, path)
}
