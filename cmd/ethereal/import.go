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
			case rate != "" && (o.Rate.UnmarshalText([]byte(rate)) != nil || o.Rate == 0):
				return fmt.Errorf("--nic-rate: %q; write for example 200Gb/s", rate)
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
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("--dir: %w; name a folder that can be written", err)
	}
	main, load := filepath.Join(dir, importer.ScenarioFile), filepath.Join(dir, importer.WorkloadFile)
	for _, path := range []string{main, load} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--dir: %s is there already, and nothing is overwritten; name another folder", path)
		}
	}
	if im.Ranks > 0 {
		var b strings.Builder
		if err := im.Workload(&b); err != nil {
			return failure("import: %w", err)
		}
		if err := writeNew(load, []byte(b.String())); err != nil {
			return failure("import: %w", err)
		}
	}
	if err := writeNew(main, text); err != nil {
		return failure("import: %w", err)
	}
	for _, note := range append(im.Notes, more...) {
		fmt.Fprintf(a.stderr, "warning: %s\n", note)
	}
	what, err := imported(main)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "wrote %s: %s\nnext: ethereal run %s\n", main, what, main)
	return err
}

// imported checks a scenario that was written, and says what is in it.
func imported(path string) (string, error) {
	s, err := scenario.Load(path)
	if err != nil {
		return "", err
	}
	runs, err := s.Expand()
	if err != nil {
		return "", placed(path, err)
	}
	r := runs[0]
	what := fmt.Sprintf("%s and %s", fabric.Count(r.Fabric.Hosts(), "host"), fabric.Count(r.Fabric.Switches(), "switch"))
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

// foreign returns err, or if the file is another program's, what it is and how to import it.
func foreign(path string, err error) error {
	if err == nil {
		return nil
	}
	if what := foreignKind(path); what != "" {
		return errors.New(what)
	}
	return err
}

// foreignKind says what another program's file is, and how to import it; "" for other files.
func foreignKind(path string) string {
	kind, what, ok := importer.RecogniseFile(path)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%s is %s; `ethereal import %s %s --dir DIR` makes a scenario of it", path, what, kind, path)
}
