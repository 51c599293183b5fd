package main

import (
	"bytes"
	"context"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// TestViewFiles: a page is made of every kind of file, distinguished by what is in it.
func TestViewFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	ctx := context.Background()
	spec := write("small.yaml", "kind: leaf-spine\ntors: 2\nspines: 2\nhosts_per_tor: 1\n")
	small := write("scenario.yaml", "name: small\nfabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 1}\n"+
		"collectives: [{kind: all-to-all, bytes: 20KB}]\nfailures: [{name: cut, notifiers: [quench], events: [{at: 500ns, action: cut, link: tor0-spine0, detection: 1us}]}]\nschemes: [ethereal]\nexpect:\n- {that: finished, is: true}\n")
	var said bytes.Buffer
	a := &app{stdout: &said, stderr: &said, version: "test", run: virtual.Runner()}
	if code := a.execute(ctx, []string{"run", small, "-q", "--record", path("r.jsonl"), "--out", path("r.json"), "--trace", path("r.pftrace")}); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, said.String())
	}
	log := `{"time":"2026-01-01T00:00:00Z","kind":"start","state":"c"}` + "\n" + `{"time":"2026-01-01T00:00:01Z","kind":"link","link":"tor0-spine0","up":false}` + "\n"
	host := `{"new":{"Host":1,"Scheme":"ethereal"}}` + "\n" + `{"at":"10us","call":"post","message":7,"bytes":8192}` + "\n"
	for name, want := range map[string]string{
		"r.jsonl": "all-to-all 20KB", "r.json": "all-to-all", "r.pftrace": "all-to-all",
		filepath.Base(write("c.jsonl", log)): "controller c", filepath.Base(write("h.log", host)): "h1, by h.log",
	} {
		l := &viewLoader{ctx: t.Context()}
		if err := l.readFabric(spec); err != nil {
			t.Fatal(err)
		}
		if err := l.loadFile(path(name)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(l.runs) != 1 || !strings.Contains(l.runs[0].Title, want) || len(l.runs[0].Nodes) != 6 {
			t.Errorf("%s: %d runs: %+v", name, len(l.runs), l.runs[0].Title)
		}
	}
	for _, name := range []string{"c.jsonl", "h.log"} { // they do not say of which fabric they are
		if code, _, errs := etherealCommand(ctx, "view", path(name), "--html", path("x.html")); code == exitOK || !strings.Contains(errs, "--fabric") {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
	}
	if code, _, errs := etherealCommand(ctx, "view", "--fabric", spec, path("c.jsonl"), path("r.jsonl"), "--html", path("x.html")); code != exitOK {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestReportLooks: a report names the commands that look into its runs, which do, and links to the traces.
func TestReportLooks(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Mkdir(path("my traces"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("s.yaml"), []byte("name: small\nfabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 1}\n"+
		"collectives: [{kind: all-to-all, bytes: 20KB}]\nfailures: [{name: healthy}]\nschemes: [ethereal, ecmp]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := func(args ...string) string {
		t.Helper()
		var said bytes.Buffer
		a := &app{stdout: &said, stderr: &said, version: "test", run: virtual.Runner()}
		if code := a.execute(context.Background(), append(args, "-q")); code != exitOK {
			t.Fatalf("%v: exit code %d\n%s", args, code, said.String())
		}
		text, err := os.ReadFile(path("r.html"))
		if err != nil {
			t.Fatal(err)
		}
		return html.UnescapeString(string(text))
	}
	run := []string{"run", path("s.yaml"), "--html", path("r.html")}
	if page := made(run...); !strings.Contains(page, "--trace trace.pftrace</pre>") {
		t.Error("a report without traces does not say how they are made")
	}
	page := made(append(run, "--out", path("r.json"), "--trace", path("my traces/t.pftrace"))...)
	links := regexp.MustCompile(`<a href="([^"#]+)" download>`).FindAllStringSubmatch(page, -1)
	commands := regexp.MustCompile(`<pre>ethereal view '(.*)'</pre>`).FindAllStringSubmatch(page, -1)
	if len(links) != 2 || len(commands) != 2 {
		t.Fatalf("%d links and %d commands", len(links), len(commands))
	}
	for i := range links {
		name, err := url.PathUnescape(links[i][1])
		if err != nil || path(name) != commands[i][1] {
			t.Errorf("the link leads to %s, %v, the command to %s", name, err, commands[i][1])
		}
		if code, _, errs := etherealCommand(t.Context(), "view", commands[i][1], "--html", path("x.html")); code != exitOK {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
	if page := made("report", path("r.json"), "--html", path("r.html")); !strings.Contains(page, "<pre>ethereal view "+path("r.json")+"</pre>") {
		t.Error("a report of results does not name the command that looks into them")
	}
}
