package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/export"
)

// exportStaticCommands make the commands of `ethereal export` that write static paths.
func (a *app) exportStaticCommands() []*cobra.Command {
	var sids bool
	frr := a.staticCommand("frr",
		"Write configuration for FRR machines that act as switches: static routes, and each switch's own uSID",
		"  ethereal export frr --fabric fabric.yaml --dir lab\n"+
			"  sysctl -p lab/tor0.sysctl && ip -6 -batch lab/tor0.ip && vtysh -f lab/tor0.conf",
		"use the folder `DIR`; NODE.conf, NODE.ip and NODE.sysctl are written there",
		func(p *export.Plan, dir string) error { return a.exportFRR(p, dir, sids) })
	frr.Flags().BoolVar(&sids, "static-sids", false, "let FRR make the uSID (FRR 10.3 or later), instead of NODE.ip")
	var lanes, senders int
	var acl bool
	sonic := a.staticCommand("sonic", "Write entries for SONiC's CONFIG_DB: SRv6 SIDs, addresses of ports, static routes",
		"  ethereal export sonic --fabric fabric.yaml --dir lab\n  sudo config load lab/tor0.json",
		"use the folder `DIR`; a NODE.json for each switch is written there", func(p *export.Plan, dir string) error {
			if err := export.CheckLanes(lanes); err != nil {
				return err
			}
			return a.exportSONiC(p, dir, lanes, acl)
		})
	sonic.Flags().IntVar(&lanes, "lanes", 4, "ports have `N` lanes: with 4, port 2 is Ethernet4")
	sonic.Flags().BoolVar(&acl, "acl", false, "also write NODE.acl.json, which redirects source ports without SRv6")
	nccl := a.staticCommand("nccl",
		"Print NCCL's environment for a job, with the queue pairs per connection that use all paths equally",
		"  ethereal export nccl --fabric fabric.yaml --senders 4", "",
		func(p *export.Plan, _ string) error { return p.NCCL(a.stdout, senders) })
	nccl.Flags().IntVar(&senders, "senders", 1, "the job has `N` NICs under each ToR")
	var from, to string
	var gid int
	perftest := a.staticCommand("perftest",
		"Print perftest's commands for two hosts: a queue pair and a flow label for each path",
		"  ethereal export perftest --fabric fabric.yaml --sender h0 --receiver h15", "",
		func(p *export.Plan, _ string) error {
			src, err := hostOf(p.Fabric, "--sender", from)
			if err != nil {
				return err
			}
			dst, err := hostOf(p.Fabric, "--receiver", to)
			if err != nil {
				return err
			}
			return p.Perftest(a.stdout, src, dst, gid)
		})
	perftest.Flags().StringVar(&from, "sender", "h0", "send from `HOST`; its name or rank")
	perftest.Flags().StringVar(&to, "receiver", "", "send to `HOST`; its name or rank")
	perftest.Flags().IntVar(&gid, "gid-index", 3, "use GID number `N`; `show_gids` lists them, choose one of RoCEv2 over IPv4")
	return []*cobra.Command{
		frr, sonic, nccl, perftest,
		a.staticCommand("linux",
			"Write commands for Linux machines that act as switches and hosts: SRv6 uSIDs, static routes, rules on source ports",
			"  ethereal export linux --fabric fabric.yaml --dir lab\n  sysctl -p lab/tor0.sysctl && ip -6 -batch lab/tor0.ip",
			"use the folder `DIR`; NODE.ip and NODE.sysctl are written there", a.exportLinux),
	}
}

// staticCommand makes a command that exports a fabric's static paths; with a folder if one is described.
func (a *app) staticCommand(
	use, short, example, folder string, write func(p *export.Plan, dir string) error,
) *cobra.Command {
	var file, dir string
	c := &cobra.Command{
		Use: use + " --fabric FILE", Short: short, Example: example, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if file == "" || folder != "" && dir == "" {
				needs := map[bool]string{true: " and --dir"}[folder != ""]
				return fmt.Errorf("export %s: write --fabric%s; `ethereal topo` prints a fabric", use, needs)
			}
			spec, err := fabric.LoadSpec(file)
			if err != nil {
				return err
			}
			f, err := fabric.NewSinglePlane(spec, "ethereal export")
			if err != nil {
				return err
			}
			p, err := export.New(f)
			if err != nil {
				return err
			}
			return write(p, dir)
		},
	}
	c.Flags().StringVar(&file, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it")
	if folder != "" {
		c.Use += " --dir DIR"
		c.Flags().StringVar(&dir, "dir", "", folder)
	}
	return c
}

// exportLinux writes two files for each node.
func (a *app) exportLinux(p *export.Plan, dir string) error {
	for i := range p.Fabric.Nodes() {
		id := fabric.NodeID(i)
		if err := writeNode(p, dir, id, nodeFiles{"ip": p.Linux, "sysctl": p.Sysctl}); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "%s: NODE.sysctl and NODE.ip of %d nodes; on each, sysctl -p NODE.sysctl && ip -6 -batch NODE.ip\n",
		dir, p.Fabric.Nodes())
	return nil
}

// exportFRR writes a switch's frr.conf with what the kernel needs beside it, and hosts as exportLinux does.
func (a *app) exportFRR(p *export.Plan, dir string, sids bool) error {
	for i := range p.Fabric.Nodes() {
		id := fabric.NodeID(i)
		these := nodeFiles{"ip": p.Linux, "sysctl": p.Sysctl}
		if p.Fabric.Node(id).Tier != fabric.Host {
			these["ip"] = p.OwnSID
			if sids {
				these["ip"] = p.SIDInterface
			}
			these["conf"] = func(w io.Writer, id fabric.NodeID) error { return p.FRR(w, id, sids) }
		}
		if err := writeNode(p, dir, id, these); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "%s: NODE.sysctl and NODE.ip of %d nodes, and NODE.conf of switches; on each, "+
		"sysctl -p NODE.sysctl && ip -6 -batch NODE.ip, and vtysh -f NODE.conf\n", dir, p.Fabric.Nodes())
	return nil
}

// exportSONiC writes a switch's part of CONFIG_DB, and its ACL where that is asked for.
func (a *app) exportSONiC(p *export.Plan, dir string, lanes int, acl bool) error {
	these := nodeFiles{"json": func(w io.Writer, id fabric.NodeID) error { return p.SONiC(w, id, lanes) }}
	if acl {
		these["acl.json"] = func(w io.Writer, id fabric.NodeID) error { return p.SONiCACL(w, id, lanes) }
	}
	return a.exportSwitches(p, dir, these)
}

// exportSwitches writes files for each switch.
func (a *app) exportSwitches(p *export.Plan, dir string, these nodeFiles) error {
	for i := p.Fabric.Hosts(); i < p.Fabric.Nodes(); i++ {
		if err := writeNode(p, dir, fabric.NodeID(i), these); err != nil {
			return err
		}
	}
	fmt.Fprintf(a.stderr, "%s: files of %d switches; hosts are as `ethereal export linux` writes them\n",
		dir, p.Fabric.Switches())
	return nil
}

// nodeFiles maps file extensions to functions that write a node's file.
type nodeFiles map[string]func(io.Writer, fabric.NodeID) error

// writeNode writes a node's files into a folder.
func writeNode(p *export.Plan, dir string, id fabric.NodeID, these nodeFiles) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("export: %w; name a folder that can be written", err)
	}
	for ext, write := range these {
		file, err := os.Create(filepath.Join(dir, p.Fabric.Name(id)+"."+ext))
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := errors.Join(write(file, id), file.Close()); err != nil {
			return failedf("export: %w", err)
		}
	}
	return nil
}
