package deployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// eventful returns a run in which one thing happens after the other.
func eventful(t *testing.T, events ...string) scenario.Run {
	t.Helper()
	text := `
name: eventful
fabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 1}
switch: {pfc: {alpha: 1}}
collectives: [{kind: all-to-all, bytes: 1MB}]
schemes: [ethereal]
deadline: 1s
steps:
`
	for _, e := range events {
		text += "  - {" + e + "}\n"
	}
	s, err := scenario.Parse("eventful.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Expand()
	if err != nil {
		t.Fatal(err)
	}
	return runs[0]
}

// recorder returns an actuator whose orders are noted. Its switches report no ports.
func recorder(t *testing.T, f *fabric.Fabric, cuts CutMethod) (*Actuator, *[]string) {
	t.Helper()
	reach, err := Open(daemon.Config{Core: controller.Config{Fabric: f}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var orders []string
	return &Actuator{Fabric: reach, Cuts: cuts, Control: func(_ context.Context, o Order) error {
		orders = append(orders, strings.TrimSpace(fmt.Sprintf("%s %s %s%v %d", o.Do, o.Name, o.Direction, o.Loss, o.Rate)))
		return nil
	}}, &orders
}

// TestActs: what happens to links is ordered in time, and what is left of it at the end is undone.
func TestActs(t *testing.T) {
	run := eventful(t, "at: 10us, action: cut, link: tor0-spine0, detection: 5us", "at: 12us, action: restore, link: tor0-spine0, detection: 5us",
		"at: 30us, action: gray, link: tor0-spine1, loss: 10%, direction: up", "at: 40us, action: cut, node: spine0, detection: 1us")
	a, orders := recorder(t, run.Fabric, BySilence)
	acts, err := a.Acts(run)
	if err != nil {
		t.Fatal(err)
	}
	var done []string
	for _, act := range acts {
		at := fmt.Sprintf("%v %s %s", act.At, act.Name, act.Where)
		if err := act.Do(t.Context()); err != nil {
			at += ": " + err.Error()
		}
		done = append(done, at)
	}
	want := []string{
		"10us cut tor0-spine0", "15us detect tor0-spine0", "12us restore tor0-spine0", "17us detect tor0-spine0", "30us gray tor0-spine1",
		"40us cut tor0-spine0", "41us detect tor0-spine0", "40us cut tor1-spine0", "41us detect tor1-spine0",
	}
	if d := cmp.Diff(want, done); d != "" {
		t.Errorf("acts (-want +got):\n%s", d)
	}
	*orders = nil
	if err := a.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	undone := []string{
		"link-up tor1-spine0 0 0", "gray tor1-spine0 0 0", "link-up tor0-spine0 0 0", "gray tor0-spine0 0 0", "gray tor0-spine1 0 0",
	}
	if d := cmp.Diff(undone, *orders); d != "" {
		t.Errorf("undone (-want +got):\n%s", d)
	}
	// What has changed again before it was to be noticed is not noticed.
	if acts, err = a.Acts(run); err != nil {
		t.Fatal(err)
	}
	acts[0].Do(t.Context())
	acts[2].Do(t.Context())
	if err := acts[1].Do(t.Context()); !errors.Is(err, ErrChanged) {
		t.Errorf("a link that was restored is noticed as down: %v", err)
	}
}

// TestSwitchDies: where links are cut as operators do, a switch all of whose links fail is ended, once.
func TestSwitchDies(t *testing.T) {
	run := eventful(t, "at: 10us, action: cut, node: spine0, detection: 1us", "at: 20us, action: restore, node: spine0, detection: 1us")
	a, orders := recorder(t, run.Fabric, BySet)
	acts, err := a.Acts(run)
	if err != nil {
		t.Fatal(err)
	}
	for _, act := range acts {
		if err := act.Do(t.Context()); err != nil || len(act.Links) != 2 {
			t.Errorf("%s %s: %v, %d links", act.Name, act.Where, err, len(act.Links))
		}
	}
	if d := cmp.Diff([]string{"node-down spine0 0 0", "node-up spine0 0 0"}, *orders); d != "" {
		t.Errorf("orders (-want +got):\n%s", d)
	}
}

// TestRefuses: what no running fabric can do is known before there is one.
func TestRefuses(t *testing.T) {
	for event, want := range map[string]string{
		"action: cut, link: tor0-spine0, detection: 1us, direction: up": "one direction",
		"action: pause, node: h0":                                  "pause is the virtual world's",
		"action: cut, link: tor0-spine0, detection: 1us":           "",
		"action: cut, node: spine0, detection: 1us":                "",
		"action: gray, link: tor0-spine0, loss: 1%, direction: up": "",
		"action: drain, node: spine0":                              "",
		"action: agent-down, node: h0":                             "",
	} {
		err := Refuses(eventful(t, "at: 1us, "+event))
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", event, err, want)
		}
	}
}

// TestRefused: what nobody here can do is refused before anything is done, with the reason.
func TestRefused(t *testing.T) {
	alone := func(a *Actuator) { a.Control = nil }
	set := func(a *Actuator) { a.Control, a.Cuts = nil, BySet }
	here := func(a *Actuator) { a.Control, a.Interface = nil, "%s-eth%d" }
	for _, c := range []struct {
		event, want string
		with        func(*Actuator)
	}{
		{"action: cut, link: tor0-spine0, detection: 1us", "no switch at tor0-spine0 has a gNMI server", set},
		{"action: cut, link: tor0-spine0, detection: 1us, direction: up", "one direction", func(a *Actuator) { a.Cuts = BySet }},
		{"action: cut, link: tor0-spine0, detection: 1us", "not on this machine", alone},
		{"action: cut, node: spine0, detection: 1us", "processes cannot be ended or started", set},
		{"action: gray, link: tor0-spine0, loss: 1%", "not on this machine", set},
		{"action: degrade, link: tor0-spine0, rate: 1Gb/s", "not on this machine", set},
		{"action: degrade, link: tor0-spine0, rate: 1Gb/s", "", here},
		{"action: gray, link: h0-tor0, loss: 1%", "h0-tor0 is a host's", here},
		{"action: controller-down", "processes cannot be ended or started", here},
		{"action: agent-down, node: h0", "processes cannot be ended or started", here},
		{"action: drain, node: spine0", "drains take admin", here},
		{"action: drain, node: spine0", "", func(a *Actuator) { a.Admin, a.Client = "unix:a", adminhttp.Client{Token: "x"} }},
		{"action: pause, node: h0", "pause is the virtual world's", here},
	} {
		run := eventful(t, "at: 1us, "+c.event)
		a, _ := recorder(t, run.Fabric, BySilence)
		c.with(a)
		if _, err := a.Acts(run); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.event, err, c.want)
		}
	}
}
