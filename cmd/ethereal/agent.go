package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/process"
)

// agentFlags are the flags that all commands that run a host's agent share.
type agentFlags struct {
	fabric, host string
	interfaces   []string
	controllers  []string
	state, admin string
	tls          tlsFlags
	log          logFlag
	seed         uint64
}

func (a *agentFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&a.fabric, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	f.StringVar(&a.host, "host", "", "act as `HOST` of the fabric; its name or rank")
	f.StringArrayVar(&a.interfaces, "interface", nil, "the network `INTERFACE` to the ToR; may be given again where programs' packets are labelled")
	f.StringArrayVar(&a.controllers, "controller", nil, "follow the controller whose --listen-agents is `ADDR`, HOST:PORT or unix:PATH; may be given again")
	f.StringVar(&a.state, "state-file", "", "keep state for a restart in `FILE`")
	f.StringVar(&a.admin, "listen-admin", "", "serve health, status and metrics over HTTP at `ADDR`, HOST:PORT or unix:PATH")
	a.tls.registerClient(c)
	a.tls.registerServer(c)
	a.log.register(c, slog.LevelInfo)
	f.Uint64Var(&a.seed, "seed", 1, "seed of random choices, `N`")
	for _, name := range []string{"fabric", "host"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was just defined
		}
	}
}

// read returns the agent's configuration from the flags and the files that they name.
func (a *agentFlags) read(stderr io.Writer) (*process.Agent, error) {
	spec, err := fabric.LoadSpec(a.fabric)
	if err != nil {
		return nil, err
	}
	c := process.Config{
		Seed: a.seed, Interfaces: a.interfaces, Controllers: a.controllers, StateFile: a.state, ServerName: a.tls.name,
	}
	if c.Fabric, err = fabric.NewSinglePlane(spec, "an agent"); err != nil {
		return nil, err
	}
	if c.Host, err = hostOf(c.Fabric, "--host", a.host); err != nil {
		return nil, err
	}
	c.Log = a.log.logger(stderr).With("host", c.Fabric.Name(c.Host))
	if c.Files, err = a.tls.read(); err != nil {
		return nil, err
	}
	return process.New(c)
}

// hostOf returns the host that a name or a rank means, which a flag gave.
func hostOf(f *fabric.Fabric, flag, name string) (fabric.NodeID, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < f.Hosts() {
		return fabric.NodeID(n), nil
	}
	id, err := f.NodeByName(name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", flag, err)
	}
	if int(id) >= f.Hosts() {
		return 0, fmt.Errorf("%s: %s is a switch; hosts are %s to %s", flag, name, f.Name(0), f.Name(fabric.NodeID(f.Hosts()-1)))
	}
	return id, nil
}
