package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/balance"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/scenarios"
)

// printKeys prints the keys of a scenario, or those that a name means: host is host and all below it, ack_every is
// host.ack_every.
func printKeys(w io.Writer, names []string, format outputFormat) error {
	all, err := scenarioKeys()
	if err != nil {
		return err
	}
	keys := all
	if len(names) > 0 {
		keys = nil
		for _, name := range names {
			found := keysOf(all, name)
			if len(found) == 0 {
				top := slices.DeleteFunc(slices.Clone(all), func(k scenarios.Key) bool { return strings.ContainsAny(k.Path, ".[") })
				var known []string
				for _, k := range top {
					known = append(known, k.Path)
				}
				return fmt.Errorf("--keys: a scenario has no %q; %s", name, strictyaml.Choose(name, known))
			}
			keys = append(keys, found...)
		}
	}
	if !format.forPeople() {
		return format.write(w, keys)
	}
	for _, k := range keys {
		line := k.Path
		if k.What != "" {
			line += ": " + k.What
		}
		if k.Required {
			line += "; required"
		} else if k.Default != "" {
			line += "; default " + k.Default
		}
		if _, err := fmt.Fprintf(w, "%s\n    %s\n", line, k.Meaning); err != nil {
			return failedf("printing: %w", err)
		}
	}
	return nil
}

// keysOf returns the key of that path and those below it, or if there is none the keys whose last part is name.
func keysOf(all []scenarios.Key, name string) []scenarios.Key {
	of := func(is func(path string) bool) []scenarios.Key {
		return slices.DeleteFunc(slices.Clone(all), func(k scenarios.Key) bool { return !is(k.Path) })
	}
	found := of(func(path string) bool {
		rest, ok := strings.CutPrefix(path, name)
		return ok && (rest == "" || rest[0] == '.' || strings.HasPrefix(rest, "[]."))
	})
	if len(found) == 0 {
		found = of(func(path string) bool { return strings.Contains(path+".", "."+name+".") })
	}
	return found
}

// scenarioKeys are the keys of the schema, and below keys that name a scheme, a rate control or a measure what each of
// them is and takes.
func scenarioKeys() ([]scenarios.Key, error) {
	all, err := scenarios.Keys()
	if err != nil {
		return nil, err
	}
	parameters := func(path string, ps []transport.Param) (keys []scenarios.Key) {
		for _, p := range ps {
			keys = append(keys, scenarios.Key{Path: path + "." + p.Name, Meaning: p.Meaning})
		}
		return keys
	}
	var keys []scenarios.Key
	for _, k := range all {
		keys = append(keys, k)
		switch k.Path {
		case "schemes[].params":
			for _, s := range balance.Specs() {
				path := "schemes[]." + s.Name
				keys = append(keys, scenarios.Key{Path: path, What: "receiver " + string(s.Receiver), Meaning: s.Summary})
				keys = append(keys, parameters(path, s.Params)...)
			}
		case "host.congestion_params":
			for _, s := range transport.Specs() {
				if s.Kind == transport.RateControl && len(s.Params) > 0 {
					keys = append(keys, parameters(k.Path+"."+s.Name, s.Params)...)
				}
			}
		case "expect[].that":
			for _, m := range scenario.Measures() {
				keys = append(keys, scenarios.Key{Path: k.Path + "." + m.Name, Meaning: m.Help})
			}
		}
	}
	return keys, nil
}
