package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/probe"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// TestProbe carries out the examples of docs/ethereal-probe.md on a fabric of processes,
// and finds a link that swallows all and one that loses half.
func TestProbe(t *testing.T) {
	spec := fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 4, HostsPerToR: 4}
	f, b, dir := newBench(t, spec, 100e6, 1024, live.Notifiers{})
	if b == nil {
		return
	}
	ctx := t.Context()
	page, err := os.ReadFile("../../docs/ethereal-probe.md")
	if err != nil {
		t.Fatal(err)
	}
	run := func(command string) []probe.Path {
		t.Helper()
		command = strings.NewReplacer("'", "", "fabric.yaml", filepath.Join(dir, "fabric.yaml"), "/run/ethereal/", dir+"/").Replace(command)
		var said, wrong bytes.Buffer
		a := &app{stdout: &said, stderr: &wrong}
		if code := a.execute(ctx, strings.Fields(command)[1:]); code != 0 {
			t.Fatalf("%s: exit code %d: %s", command, code, &wrong)
		}
		out := said.String()
		t.Logf("%s\n%.2000s", command, out)
		var found []probe.Path
		switch {
		case strings.HasSuffix(command, "json"):
			err = json.Unmarshal(said.Bytes(), &found)
		case strings.HasSuffix(command, "yaml"): // the same keys
			var x any
			text, bad := []byte(nil), yaml.Unmarshal(said.Bytes(), &x)
			if text, err = json.Marshal(x); err == nil {
				err = errors.Join(bad, json.Unmarshal(text, &found))
			}
		case !strings.Contains(out, "label 3") || !strings.Contains(out, " paths: "):
			err = fmt.Errorf("no matrix")
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
		return found
	}
	_, examples, _ := strings.Cut(string(page), "**Examples.**")
	commands := 0
	for line := range strings.Lines(examples) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands++
			for _, p := range run(strings.TrimSpace(command)) {
				if p.Sent == 0 || p.Trip <= 0 || p.Least <= 0 || p.Least > p.Trip {
					t.Errorf("%s: %+v", line, p)
				}
			}
		}
	}
	if commands != 4 {
		t.Errorf("the page shows %d examples; are they still found?", commands)
	}
	link := func(name string) fabric.LinkID {
		id, err := f.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	a, err := b.Fabric.Actuator()
	if err == nil {
		err = a.SetLoss(ctx, link("tor1-spine2"), scenario.BothDirections, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := a.SetLoss(ctx, link("tor0-spine1"), scenario.BothDirections, 0.5); err != nil {
		t.Skipf("no gray links here: %v", err)
	}
	found := run("ethereal probe --fabric fabric.yaml --socket unix:/run/ethereal/{host}.sock --timeout 1s -o json")
	if want := f.Hosts() * (f.ToRs() - 1) * 4; len(found) != want {
		t.Errorf("%d paths, not %d", len(found), want)
	}
	for _, p := range found {
		over := func(tor, label int) bool {
			return p.Label == label && (torOf(t, f, p.From) == tor || torOf(t, f, p.To) == tor)
		}
		switch dead, gray := over(1, 2), over(0, 1); {
		case dead && p.Lost != p.Sent, gray && p.Lost == 0, !dead && !gray && p.Lost > 0:
			t.Errorf("%+v; tor1-spine2 is dead and tor0-spine1 loses half", p)
		}
	}
}

func torOf(t *testing.T, f *fabric.Fabric, name string) int {
	t.Helper()
	id, err := f.NodeByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return f.Node(f.ToROf(id)).Index
}
