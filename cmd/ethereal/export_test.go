package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExportContainerlab(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "fabric.yaml")
	if err := os.WriteFile(file, []byte("kind: fat-tree\nk: 4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	base := "export containerlab --fabric " + file + " --dir " + filepath.Join(dir, "lab")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{base, exitInput, "write --fabric, --dir and --address"},
		{base + " --address here", exitInput, "--address"},
		{base + " --address 192.0.2.1 --mtu 9", exitInput, "write 576 to 9500"},
		{base + " --address 192.0.2.1 --name a/b", exitInput, "write letters, digits"},
		{base + " --address 1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5", exitInput, "4 pods, which stay whole; write 1 to 4"},
		{base + " --address 192.0.2.1,192.0.2.2", exitOK, "8 of 48 links cross"},
	} {
		if code, _, text := call(t, &fake{}, strings.Fields(c.args)...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s: exit %d: %s; want %d, %q", c.args, code, text, c.code, c.want)
		}
	}
}

func TestAwait(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"await lo", exitInput, "write interfaces, -- and a command"},
		{"await -- version", exitInput, "write interfaces, -- and a command"},
		{"await --timeout 1ms none0 -- version", exitRun, "none0 is not there or not up"},
		{"await lo -- report", exitInput, "report"}, // the command is carried out
	} {
		if code, out, text := call(t, &fake{}, strings.Fields(c.args)...); code != c.code || !strings.Contains(out+text, c.want) {
			t.Errorf("%s: exit %d: %s%s; want %d, %q", c.args, code, out, text, c.code, c.want)
		}
	}
}

// TestExportStatic: each command writes what it says, and refuses what it cannot.
func TestExportStatic(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "fabric.yaml")
	if err := os.WriteFile(file, []byte("kind: fat-tree\nk: 4\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"frr --dir " + dir, exitOK, "NODE.conf of switches"},
		{"frr", exitInput, "write --fabric and --dir"},
		{"sonic --acl --dir " + dir, exitOK, "files of 20 switches"},
		{"sonic --lanes 0 --dir " + dir, exitInput, "write 1 to 16"},
		{"nccl --senders 2", exitOK, "NCCL_IB_QPS_PER_CONNECTION=2\n"},
		{"perftest --receiver h15", exitOK, "# on h0\nib_write_bw -F -x 3 -q 4 --report_gbits --flow_label=1032255,1032254,1032253,1032252 10."},
		{"perftest --receiver h1", exitInput, "under one ToR"},
		{"perftest --receiver nobody", exitInput, "--receiver"},
	} {
		args := append([]string{"export"}, strings.Fields(c.args+" --fabric "+file)...)
		if code, out, text := call(t, &fake{}, args...); code != c.code || !strings.Contains(out+text, c.want) {
			t.Errorf("%s: exit %d: %s%s; want %d, %q", c.args, code, out, text, c.code, c.want)
		}
	}
	for _, name := range []string{"tor0.conf", "core0.ip", "h0.ip", "agg0.json", "agg0.acl.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}
