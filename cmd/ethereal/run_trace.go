package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// traceFlags are the flags that request a trace of each run, and limit its size.
type traceFlags struct {
	path, window, every string
	hosts               []string
}

func (t *traceFlags) register(f *pflag.FlagSet) {
	f.StringVar(&t.path, "trace", "", "write a trace of each run to `FILE`, for ethereal view and https://ui.perfetto.dev; compressed if it ends in .gz")
	f.StringVar(&t.window, "trace-window", "", "with --trace: only `FROM..TO`, as in 100us..300us; either may be left out")
	f.StringSliceVar(&t.hosts, "trace-hosts", nil, "with --trace: only messages and queue pairs of `HOSTS`, as in h0,h3 or h0..h7")
	f.StringVar(&t.every, "trace-every", "", "with --trace: read counters every `DURATION` (default 1us, more in fabrics of over 256 links)")
}

// recordingOptions returns the recording options of each run.
func (t *traceFlags) recordingOptions(runs []scenario.Run) ([]recording.Options, error) {
	var o recording.Options
	for flag, set := range map[string]bool{"--trace-window": t.window != "", "--trace-hosts": len(t.hosts) > 0, "--trace-every": t.every != ""} {
		if set && t.path == "" {
			return nil, fmt.Errorf("%s: there is no --trace", flag)
		}
	}
	if t.every != "" {
		if err := o.Every.UnmarshalText([]byte(t.every)); err != nil || o.Every < fabric.Nanosecond {
			return nil, fmt.Errorf("--trace-every: %q; write a time of a nanosecond or more, as in 2us", t.every)
		}
	}
	if t.window != "" {
		from, until, ok := strings.Cut(t.window, "..")
		err := errors.Join(parseBound(from, &o.From), parseBound(until, &o.Until))
		if !ok || err != nil || o.Until > 0 && o.Until <= o.From {
			return nil, fmt.Errorf("--trace-window: %q; write FROM..TO, as in 100us..300us", t.window)
		}
	}
	each := make([]recording.Options, len(runs))
	for i, r := range runs {
		each[i] = o
		for _, name := range t.hosts {
			hosts, err := hostRange(r.Fabric, name)
			if err != nil {
				return nil, fmt.Errorf("--trace-hosts: %w", err)
			}
			each[i].Hosts = append(each[i].Hosts, hosts...)
		}
	}
	return each, nil
}

func parseBound(text string, into *fabric.Time) error {
	if text == "" {
		return nil
	}
	return into.UnmarshalText([]byte(text))
}

// hostRange reads h3, or h0..h7.
func hostRange(f *fabric.Fabric, text string) ([]fabric.NodeID, error) {
	first, last, several := strings.Cut(text, "..")
	if !several {
		last = first
	}
	var ends [2]fabric.NodeID
	for i, name := range []string{first, last} {
		n, err := f.NodeByName(name)
		if err != nil {
			return nil, err
		}
		if int(n) >= f.Hosts() {
			return nil, fmt.Errorf("%s is no host; hosts are h0 to h%d", name, f.Hosts()-1)
		}
		ends[i] = n
	}
	if ends[1] < ends[0] {
		return nil, fmt.Errorf("%s: write the lower host first", text)
	}
	var hosts []fabric.NodeID
	for h := ends[0]; h <= ends[1]; h++ {
		hosts = append(hosts, h)
	}
	return hosts, nil
}
