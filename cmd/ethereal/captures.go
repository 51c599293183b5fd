package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/runner"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// parseCaptures reads --pcap arguments. from are the scenarios' files.
func parseCaptures(args []string, runs []scenario.Run, from []string) ([]runner.Capture, error) {
	var out []runner.Capture
	if len(args) > 0 && len(from) > 1 {
		return nil, errors.New("--pcap: several scenarios; name one")
	}
	for _, arg := range args {
		link, path, ok := strings.Cut(arg, "=")
		if !ok || path == "" {
			return nil, fmt.Errorf("--pcap: %q is not LINK=FILE; write for example tor0-agg0=uplink.pcap", arg)
		}
		id, err := runs[0].Fabric.LinkByName(link)
		if err != nil {
			return nil, fmt.Errorf("--pcap: %s; `ethereal topo --scenario %s -o json` lists the links",
				strings.TrimPrefix(err.Error(), "fabric: "), from[0])
		}
		for _, c := range out {
			if c.Path == path {
				return nil, fmt.Errorf("--pcap: %s is named twice; give each link a file of its own", path)
			}
		}
		out = append(out, runner.Capture{Link: id, Path: path})
	}
	return out, nil
}

// checkCores checks how many runs are to be at a time, and on how many cores each.
func checkCores(parallel, cores int) error {
	switch {
	case parallel < 1:
		return fmt.Errorf("--parallel: %d; write 1 or more", parallel)
	case cores < 0:
		return fmt.Errorf("--cores: %d; write 1 or more, or 0 for as many as are left", cores)
	}
	return nil
}
