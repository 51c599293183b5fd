package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/testbed/cluster"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// submitFlags are the flags of `ethereal bench submit`.
type submitFlags struct {
	bench               benchFlags
	dir                 string
	slurm, kubernetes   bool
	tasks, cpus         int
	now                 bool
	options             []string
	image, claim, mount string
}

func (a *app) benchSubmitCommand() *cobra.Command {
	var flags submitFlags
	c := &cobra.Command{
		Use:   "submit SWEEP --dir DIR --slurm|--kubernetes",
		Short: "Write the batch job of a sweep for Slurm or Kubernetes, and submit it if asked",
		Long: `Writes the files with which Slurm or Kubernetes carries out a sweep as an array of tasks, followed by a merge:
array.sbatch and merge.sbatch, or job.yaml. All machines must see the folder. Memory and time of a task follow from
the estimates, with a margin. The array has only tasks with missing runs, so repeat the command after failures.`,
		Example: `  ethereal bench submit testbed/sweeps/demo.yaml --dir shared/demo --slurm --tasks 8
  ethereal bench submit testbed/sweeps/demo.yaml --dir shared/demo --slurm --tasks 8 --option partition=long --now
  ethereal bench submit testbed/sweeps/demo.yaml --dir /shared/demo --kubernetes --tasks 8 --image ethereal:1 --claim shared --mount /shared`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("bench submit takes one sweep file, not %d; as in ethereal bench submit demo.yaml --dir shared/demo --slurm", len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.submit(c.Context(), args[0], flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.dir, "dir", "", "use the folder `DIR`; all tasks write their results there, so all machines must see it under this name")
	f.BoolVar(&flags.slurm, "slurm", false, "write a Slurm array job")
	f.BoolVar(&flags.kubernetes, "kubernetes", false, "write a Kubernetes Indexed Job")
	f.IntVar(&flags.tasks, "tasks", 8, "divide the sweep into `N` tasks")
	f.IntVar(&flags.cpus, "cpus", 1, "run `N` at a time in each task")
	f.BoolVar(&flags.now, "now", false, "submit the job with sbatch or kubectl")
	f.StringArrayVar(&flags.options, "option", nil, "with --slurm: a line of #SBATCH, `NAME=VALUE`, as in partition=long; may be given again")
	f.StringVar(&flags.image, "image", "", "use the container `IMAGE`, made with scripts/dist/Containerfile; only with --kubernetes")
	f.StringVar(&flags.claim, "claim", "", "with --kubernetes: persistent volume `CLAIM` that holds the sweep file and the folder")
	f.StringVar(&flags.mount, "mount", "", "with --kubernetes: `PATH` at which the volume is mounted, on this machine and in the containers")
	f.StringVar(&flags.bench.only, "only", "", "select runs that match `REGEXP`; as ethereal bench does")
	f.Var(&flags.bench.schemes, "schemes", "use these schemes, `A,B`; with parameters as in 'jsq,spray(mode=random)'")
	f.StringVar(&flags.bench.seeds, "seeds", "", "use these `SEEDS`; written as 7, as 1,2,5 or as 1..10")
	f.BoolVar(&flags.bench.full, "full", false, "keep links, flips and timelines in the results")
	_ = c.RegisterFlagCompletionFunc("schemes", cobra.FixedCompletions(scenario.SchemeNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// validate returns an error if the flags contradict each other.
func (f submitFlags) validate() error {
	switch {
	case f.slurm == f.kubernetes:
		return errors.New("write --slurm or --kubernetes")
	case f.dir == "":
		return errors.New("--dir: name a folder that all machines see")
	case f.tasks < 1:
		return fmt.Errorf("--tasks: %d; write 1 or more", f.tasks)
	case f.cpus < 1:
		return fmt.Errorf("--cpus: %d; write 1 or more", f.cpus)
	case f.kubernetes && (f.image == "" || f.claim == "" || f.mount == ""):
		return errors.New("--kubernetes takes --image, --claim and --mount: the program, the volume with sweep and folder, and where it is mounted")
	}
	return nil
}

func (a *app) submit(ctx context.Context, path string, flags submitFlags) error {
	if err := flags.validate(); err != nil {
		return err
	}
	var err error
	if flags.dir, err = filepath.Abs(flags.dir); err != nil {
		return err
	}
	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	w, err := a.planBench(path, flags.bench)
	if err != nil {
		return err
	}
	t, err := taskFlags{dir: flags.dir, shard: cluster.Shard{Of: flags.tasks}.String()}.keepShare(a, w)
	if err != nil {
		return err
	}
	for _, p := range []string{path, flags.dir} {
		if rel, err := filepath.Rel(flags.mount, p); flags.kubernetes && (err != nil || strings.HasPrefix(rel, "..")) {
			return fmt.Errorf("--mount: %s is not below %s: the containers do not see it", p, flags.mount)
		}
	}
	if err := t.Begin(); err != nil {
		return err
	}
	s, err := t.Folder.Status(t.Jobs, flags.tasks)
	if err != nil {
		return err
	}
	order, err := submitOrder(t, s, flags)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s: %d runs, %d done; %d of %d tasks have something to do, each with %d MB and %v\n", w.Sweep.Name, s.Runs, s.Done,
		len(order.Left), flags.tasks, order.Need.Bytes/1e6, secondsOf(order.Need.Seconds))
	if len(order.Left) == 0 {
		fmt.Fprintf(a.stderr, "nothing is missing; ethereal bench merge %s makes one file of it\n", flags.dir)
		return nil
	}
	if flags.slurm {
		return a.submitSlurm(ctx, order, flags.now)
	}
	if err := order.Kubernetes(); err != nil {
		return err
	}
	job := filepath.Join(order.Dir, cluster.JobFile)
	if !flags.now {
		fmt.Fprintf(a.stderr, "submit it by: kubectl create -f %s\n", job)
		return nil
	}
	_, err = a.runEngine(ctx, "kubectl", "create", "-f", job)
	return err
}

// submitOrder returns the job that Slurm or Kubernetes is to execute.
func submitOrder(t *cluster.Member, s *cluster.Status, flags submitFlags) (cluster.Order, error) {
	o := cluster.Order{
		Name: t.Work.Sweep.Name, Dir: flags.dir, Merged: filepath.Join(flags.dir, "merged.jsonl"), Tasks: flags.tasks,
		Need: cluster.ResourcesFor(t.Jobs, flags.tasks, flags.cpus, virtual.EstimateProcess), Options: flags.options,
		Image: flags.image, VolumeClaim: flags.claim, Mount: flags.mount,
	}
	for _, x := range s.Tasks {
		if x.Done < x.Runs {
			o.Left = append(o.Left, x.Index)
		}
	}
	program := "/ethereal" // as scripts/dist/Containerfile has it
	if flags.slurm {
		var err error
		if program, err = os.Executable(); err != nil {
			return o, err
		}
	}
	path, err := filepath.Abs(t.Plan.Sweep)
	if err != nil {
		return o, err
	}
	o.Bench = []string{program, "bench", path, "--dir", o.Dir, "--parallel", strconv.Itoa(flags.cpus), "--cores", "1"}
	if flags.bench.only != "" {
		o.Bench = append(o.Bench, "--only", flags.bench.only)
	}
	if text := flags.bench.schemes.String(); text != "" {
		o.Bench = append(o.Bench, "--schemes", text)
	}
	if flags.bench.seeds != "" {
		o.Bench = append(o.Bench, "--seeds", flags.bench.seeds)
	}
	if flags.bench.full {
		o.Bench = append(o.Bench, "--full")
	}
	o.Merge = []string{program, "bench", "merge", o.Dir, "--out", o.Merged}
	return o, nil
}

func (a *app) submitSlurm(ctx context.Context, o cluster.Order, now bool) error {
	if err := o.Slurm(); err != nil {
		return err
	}
	array, merge := filepath.Join(o.Dir, cluster.ArrayFile), filepath.Join(o.Dir, cluster.MergeFile)
	if !now {
		fmt.Fprintf(a.stderr, "submit it by: sbatch --dependency=afterany:$(sbatch --parsable %s) %s\n", array, merge)
		return nil
	}
	id, err := a.runEngine(ctx, "sbatch", "--parsable", array)
	if err != nil {
		return err
	}
	id, _, _ = strings.Cut(strings.TrimSpace(id), ";") // with several clusters, ID;CLUSTER
	_, err = a.runEngine(ctx, "sbatch", "--parsable", "--dependency=afterany:"+id, merge)
	return err
}

// runEngine runs a command of Slurm or Kubernetes, prints its output, and returns the output.
func (a *app) runEngine(ctx context.Context, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Stderr = a.stderr
	out, err := c.Output()
	fmt.Fprintf(a.stderr, "%s %s: %s\n", name, strings.Join(args, " "), strings.TrimSpace(string(out)))
	if err != nil {
		return "", failedf("%s: %w", name, err)
	}
	return string(out), nil
}
