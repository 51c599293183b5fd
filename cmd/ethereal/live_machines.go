//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/printable"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live/machines"
)

// machinesFlags are the flags of `ethereal live up --on`.
type machinesFlags struct {
	on                         []string
	dir, shell, program, labCA string
	vxlanPort                  int
}

// addMachines gives live the flags and commands of fabrics on several machines.
func (a *app) addMachines(c, up, down *cobra.Command, flags *liveFlags, view *viewFlags) {
	var m machinesFlags
	m.register(up)
	here := up.RunE
	up.RunE = func(c *cobra.Command, args []string) error {
		if len(m.on) == 0 {
			for _, name := range machinesOnly {
				if c.Flags().Changed(name) {
					return fmt.Errorf("--%s is for a fabric on several machines: add --on, or leave it out; the files of a fabric on "+
						"this machine alone are in a folder of TMPDIR", name)
				}
			}
			return here(c, args)
		}
		f, err := flags.read()
		if err != nil {
			return err
		}
		return a.upOn(c.Context(), &m, f, *flags, view.at())
	}
	up.Example += "\n  ethereal live up --on a=192.0.2.1,b=192.0.2.2 --dir lab"
	var dir string
	down.Flags().StringVar(&dir, "dir", "", "use the folder `DIR`; the one given to live up --on")
	one := down.RunE
	down.RunE = func(c *cobra.Command, args []string) error {
		if dir == "" {
			return one(c, args)
		}
		if _, err := machines.Ask(dir, "down", ""); err != nil {
			return failure("%w", err)
		}
		return nil
	}
	c.AddCommand(a.livePartCommand(), a.liveStatusCommand(), liveRejoinCommand())
}

// machinesOnly are the flags of live up that mean nothing without --on.
var machinesOnly = []string{"dir", "remote-shell", "remote-program", "lab-ca", "vxlan-port"}

func (m *machinesFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringSliceVar(&m.on, "on", nil, "spread the fabric over `MACHINES`, NAME[=ADDRESS],...; the first is this one, the others are reached by --remote-shell")
	f.StringVar(&m.dir, "dir", deployment.MachinesDir, "use the folder `DIR`; with --on: sockets, certificates, logs and deployment.json are there")
	f.StringVar(&m.shell, "remote-shell", "ssh", "with --on: run commands on other machines by `COMMAND`, to which the machine's name is added")
	f.StringVar(&m.program, "remote-program", "", "with --on: start this program on the other machines by `COMMAND`, as root (default: its path here)")
	f.StringVar(&m.labCA, "lab-ca", "scripts/lab-ca", "with --on: make certificates with the script `FILE`")
	f.IntVar(&m.vxlanPort, "vxlan-port", 4789, "with --on: use UDP `PORT` for the tunnels between machines")
}

// What a machine's name and the program's words may have: a remote shell such as ssh hands them to a shell. Nothing else
// goes by its command line.
var (
	machineName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$`)
	programWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)
)

// read returns what the flags say.
func (m *machinesFlags) read(ctx context.Context) (cfg machines.Config, err error) {
	if len(m.on) < 2 {
		return cfg, errors.New("--on: name two machines or more, this one first: --on a=192.0.2.1,b=192.0.2.2")
	}
	seen := map[string]bool{}
	for _, item := range m.on {
		name, text, given := strings.Cut(item, "=")
		if !machineName.MatchString(name) {
			return cfg, fmt.Errorf("--on: %q is no name of a machine: letters, digits and _.@:-, and no dash at the beginning; "+
				"give it another in ~/.ssh/config", name)
		}
		if seen[name] {
			return cfg, fmt.Errorf("--on: %s is given twice", name)
		}
		seen[name] = true
		var addr netip.Addr
		if given {
			addr, err = netip.ParseAddr(text)
		} else {
			addr, err = addressOf(ctx, name)
		}
		if err != nil {
			return cfg, fmt.Errorf("--on: %s: %w; write its address: %s=192.0.2.1", name, err, name)
		}
		cfg.Machines = append(cfg.Machines, machines.Machine{Name: name, Address: addr.Unmap()})
	}
	if m.vxlanPort < 1 || m.vxlanPort > 65535 {
		return cfg, fmt.Errorf("--vxlan-port: %d; write 1 to 65535", m.vxlanPort)
	}
	if m.program == "" {
		if m.program, err = os.Executable(); err != nil {
			return cfg, err
		}
	}
	cfg.Program, cfg.Shell, cfg.VXLANPort = strings.Fields(m.program), strings.Fields(m.shell), m.vxlanPort
	for _, w := range cfg.Program {
		if !programWord.MatchString(w) {
			return cfg, fmt.Errorf("--remote-program: %q: a shell there may read it; write letters, digits and _@%%+=:,./- only", w)
		}
	}
	if len(cfg.Shell) == 0 || len(cfg.Program) == 0 {
		return cfg, errors.New("--remote-shell, --remote-program: write a command, such as ssh")
	}
	if cfg.Dir, err = filepath.Abs(m.dir); err != nil {
		return cfg, err
	}
	// A path with a slash: else it would be looked up on the PATH.
	cfg.LabCA, err = filepath.Abs(m.labCA)
	return cfg, err
}

// addressOf looks a machine's name up. With ssh a user may stand before it.
func addressOf(ctx context.Context, name string) (netip.Addr, error) {
	if _, host, ok := strings.Cut(name, "@"); ok {
		name = host
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", name)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range all {
		if a := a.Unmap(); !a.IsLoopback() {
			return a, nil
		}
	}
	return netip.Addr{}, errors.New("it has no address that other machines reach")
}

// upOn carries out live up --on.
func (a *app) upOn(ctx context.Context, m *machinesFlags, f *fabric.Fabric, flags liveFlags, view string) error {
	if !flags.switches.Own() {
		return fmt.Errorf("switches that are a %s: not with --on; they are all on one machine", flags.switches.Name())
	}
	cfg, err := m.read(ctx)
	if err != nil {
		return err
	}
	cfg.Fabric, cfg.Payload, cfg.Datapath, cfg.View = f, flags.payload, flags.datapath, view
	cfg.Log, cfg.Build = a.stderr, provenance(a.version)
	err = machines.UpOn(ctx, cfg, func() {
		fmt.Fprintf(a.stdout, "%d hosts and %d switches are up on %d machines; ethereal run --world lab --deployment %s\n",
			f.Hosts(), f.Switches(), len(cfg.Machines), filepath.Join(m.dir, deployment.FileName))
	})
	if err != nil {
		return failure("%w", err)
	}
	return nil
}

// livePartCommand makes `ethereal live part`, which live up --on starts.
func (a *app) livePartCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "part",
		Short:  "Be a machine's part of a fabric on several; live up --on starts it",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if dir, ok := live.Inside(); ok {
				if err := machines.Part(c.Context(), dir, a.log); err != nil {
					return failure("%w", err)
				}
				return nil
			}
			code, err := machines.ServePart(c.Context(), provenance(a.version), machines.PartCommand(), a.log)
			if err != nil {
				return failure("%w", err)
			}
			if code != 0 {
				return endedWith(code)
			}
			return nil
		},
	}
}

// liveRejoinCommand makes `ethereal live rejoin`.
func liveRejoinCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "rejoin MACHINE",
		Short:   "Bring a lost machine back into a fabric on several machines",
		Example: "  ethereal live rejoin b --dir lab",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := machines.Ask(dir, "rejoin", args[0]); err != nil {
				return failure("%w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", deployment.MachinesDir, "use the folder `DIR`; the one given to live up --on")
	return c
}

// liveStatusCommand makes `ethereal live status`.
func (a *app) liveStatusCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which processes or machines of the fabric that is up are lost",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("dir") {
				if s, up, err := live.StatusOf(c.Context()); up {
					return a.showLive(s, err)
				}
			}
			s, err := machines.Ask(dir, "status", "")
			if err != nil {
				return failure("%w", err)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			lost := 0
			for _, m := range s.Machines {
				state := "up"
				if m.Lost != "" {
					state = "lost"
					lost++
				}
				fmt.Fprintf(w, "%s\t%v\t%s\t%s\n", m.Name, m.Address, state, strings.Join(m.Nodes, " "))
			}
			fmt.Fprintf(w, "controller\t%s\n", s.Controller)
			if err := w.Flush(); err != nil {
				return err
			}
			if err := a.showLost(s.Lost); err != nil {
				return err
			}
			if lost > 0 {
				return failure("%d of %d machines are lost; ethereal live rejoin NAME takes one back", lost, len(s.Machines))
			}
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", deployment.MachinesDir, "use the folder `DIR`; the one given to live up --on")
	return c
}

// showLive prints how the fabric on this machine is.
func (a *app) showLive(s live.Status, err error) error {
	if err != nil {
		return failure("%w", err)
	}
	fmt.Fprintf(a.stdout, "%d hosts and %d switches; sockets and logs are in %s\n", s.Hosts, s.Switches, s.Dir) //nolint:errcheck // the exit code says it
	return a.showLost(s.Lost)
}

// showLost prints the processes that ended though they were not to, if any; the error says so.
func (a *app) showLost(lost []string) error {
	for _, text := range lost {
		fmt.Fprintln(a.stdout, printable.Text(text)) //nolint:errcheck // the exit code says it
	}
	if len(lost) > 0 {
		return failure("%d processes of the fabric have ended, and nothing starts them again; ethereal live down ends the fabric", len(lost))
	}
	return nil
}
