package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/mininet"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// mininetPython is the distribution's: Mininet is installed for it, and seldom for another that comes first on the
// PATH.
const mininetPython = "/usr/bin/python3"

// mininetCommand makes `ethereal mininet`.
func mininetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "mininet",
		Short: "Boot a fabric in Mininet, with BMv2 or the Go switch",
		Long: `Boots a fabric in Mininet, as root, by a Python script that this program carries and /usr/bin/python3, for which
distributions install Mininet. Missing programs are named.`,
	}
	up := &cobra.Command{
		Use: "up", Short: "Start a fabric and open Mininet's command line", Args: cobra.NoArgs,
		Example: "  sudo bin/ethereal mininet up\n  sudo bin/ethereal mininet up --switch bmv2 --view",
	}
	run := &cobra.Command{
		Use: "run [EXPERIMENT]...", Short: "Start a fabric, run experiments on it, and stop it",
		Example: "  sudo bin/ethereal mininet run\n  sudo bin/ethereal mininet run --switch bmv2 mininet/experiments/single-link.yaml",
	}
	clean := &cobra.Command{
		Use: "clean", Short: "Remove what a run that was killed left behind", Args: cobra.NoArgs,
		Example: "  sudo bin/ethereal mininet clean",
	}
	for x, first := range map[*cobra.Command][]string{up: {"--up"}, run: nil, clean: {"--clean"}} {
		x.RunE = func(c *cobra.Command, args []string) error {
			return runMininet(c.Context(), mininetPython, slices.Concat(first, mininetFlags(c), args))
		}
		x.Flags().String("dir", "", "use the folder `DIR`; for logs and state (default "+deployment.MininetDir+")")
	}
	registerMininet(up.Flags())
	registerMininet(run.Flags())
	f := run.Flags()
	f.Bool("probe", false, "show loss and round trip of every path")
	f.Bool("ping-only", false, "start no agents and run no experiment")
	f.Bool("cli", false, "open Mininet's command line at the end")
	f.String("html", "", "write the page, one self-contained file, to `FILE`")
	f.String("record", "", "write a record of events to `FILE`, as JSON lines")
	c.AddCommand(up, run, clean)
	return c
}

// registerMininet adds the flags that up and run share. The script has the defaults.
func registerMininet(f *pflag.FlagSet) {
	f.String("fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it; instead of the experiments'")
	f.String("switch", "", "use switches of `KIND`: go, kernel, linux with --carrier srv6-usid, or bmv2 (default go)")
	f.String("carrier", "", "carry labels in `FIELD`; udp-sport (default), ipv6-flowlabel or srv6-usid")
	f.String("rate", "", "rate of links, `RATE`, as in 100Gb/s; at which agents send (default 500kb/s)")
	f.String("bw", "", "limit every link to `MBIT` per second (default: as fast as it goes)")
	f.String("delay", "", "propagation delay of links, one way, `DURATION`, as in 0.5us; as tc writes it")
	f.String("loss", "", "lose `PERCENT` of packets on every link, each way")
	f.Int("mtu", 0, "MTU of the interfaces, `BYTES` (default 9000)")
	for _, k := range kinds.Starters() {
		if how := k.Start(); how.Binary {
			f.String(k.Name(), "", how.Help)
		}
	}
	f.Int("port-base", 0, "use TCP ports of the loopback from `PORT` on (default 20000)")
	f.Bool("isolate", false, "run in a network namespace of its own, away from the machine's interfaces")
	v := viewFlags{}
	v.register(f)
}

// mininetFlags returns the flags that were given, as the script takes them.
func mininetFlags(c *cobra.Command) (args []string) {
	c.Flags().Visit(func(f *pflag.Flag) {
		args = append(args, "--"+f.Name)
		if t := f.Value.Type(); t != "bool" && t != "count" {
			args[len(args)-1] += "=" + f.Value.String()
		}
	})
	return args
}

// runMininet runs the script with this program as the fabric's.
func runMininet(ctx context.Context, python string, args []string) error {
	if _, err := os.Stat(python); err != nil {
		return failedf("mininet: there is no %s, for which distributions install Mininet; apt-get install python3 mininet", python)
	}
	if out, err := exec.CommandContext(ctx, python, "-c", "import mininet.net").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return failedf("mininet: %s: %s; apt-get install mininet ethtool (scripts/check names all that is missing)", python, lines[len(lines)-1])
	}
	if os.Geteuid() != 0 {
		return errors.New("mininet: network namespaces take root; use sudo")
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ethereal-mininet-")
	if err != nil {
		return failedf("mininet: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the script has removed it, or never ran
	if err := os.CopyFS(dir, mininet.Files); err != nil {
		return failedf("mininet: %w", err)
	}
	// The script has its own way to end: signals are passed on.
	cmd := exec.Command(python, append([]string{filepath.Join(dir, "run.py")}, args...)...)
	cmd.Env = append(os.Environ(), "ETHEREAL="+exe, "ETHEREAL_UNPACKED="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	defer endWithParent(cmd)() // the script then takes all down
	if err := cmd.Start(); err != nil {
		return failedf("mininet: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(os.Interrupt) }) //nolint:errcheck // it has ended
	defer stop()
	if err := cmd.Wait(); cmd.ProcessState == nil {
		return failedf("mininet: %w", err)
	}
	return exitError(cmd.ProcessState.ExitCode(), nil)
}
