package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/cluster"
)

// slurmConf is a cluster of two nodes on loopback. Nothing of it needs control groups, a database or a user of Slurm's.
const slurmConf = `ClusterName=ethereal
SlurmctldHost=%[2]s(127.0.0.1)
SlurmUser=root
SlurmctldPort=%[3]d
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=%[1]s/munge.socket
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=1
SchedulerParameters=sched_interval=1,bf_interval=1
NodeName=n0 NodeHostname=%[2]s NodeAddr=127.0.0.1 Port=%[4]d CPUs=1 RealMemory=4000
NodeName=n1 NodeHostname=%[2]s NodeAddr=127.0.0.1 Port=%[5]d CPUs=1 RealMemory=4000
PartitionName=all Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP
`

// slurm starts a cluster of nodes n0 and n1 that ends with the test, and returns the environment of its commands.
func slurm(t *testing.T) []string {
	t.Helper()
	systemtest.Only(t)
	for _, tool := range []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install slurm-wlm and munge", err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("slurmd needs root")
	}
	// The temporary folder of a test is its user's alone; munged wants the folder of its socket to be everybody's.
	dir, err := os.MkdirTemp("", "ethereal-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "state"), 0o755)); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 128)
	_, _ = rand.Read(key) // never fails
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	var ports [3]int
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port //nolint:errcheck // it is one
		defer l.Close()                         //nolint:errcheck // before anyone listens there
	}
	conf := filepath.Join(dir, "slurm.conf")
	text := fmt.Sprintf(slurmConf, dir, host, ports[0], ports[1], ports[2])
	// Nothing here limits tasks by control groups. slurmd opens a plugin for them all the same, and finds none by
	// itself where both versions are mounted.
	groups := []byte("CgroupPlugin=cgroup/v1\n")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "munge.key"), key, 0o400), os.WriteFile(conf, []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "cgroup.conf"), groups, 0o644)); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "SLURM_CONF="+conf)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"munged", "--force", "--foreground", "--key-file=" + at("munge.key"), "--socket=" + at("munge.socket"), "--pid-file=" + at("munged.pid"),
			"--log-file=" + at("munged.log"), "--seed-file=" + at("munged.seed")},
		{"slurmctld", "-D"}, {"slurmd", "-D", "-N", "n0"}, {"slurmd", "-D", "-N", "n1"},
	} {
		c := exec.Command(args[0], args[1:]...)
		c.Env = env
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Signal(syscall.SIGTERM)
			late := time.AfterFunc(10*time.Second, func() { _ = c.Process.Kill() })
			_ = c.Wait() // how it ends does not matter
			late.Stop()
		})
		if args[0] == "munged" {
			until(t, time.Minute, "munged answers", func() bool { _, err := os.Stat(at("munge.socket")); return err == nil })
		}
	}
	return env
}

// until waits for something, and fails after a limit.
func until(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// TestSlurm has Slurm carry out a sweep as an array of eight tasks on two nodes. One task is killed and one node
// drained on the way. What is missing is named, the same command submits it again, and the merged file is equal to one
// made without Slurm.
func TestSlurm(t *testing.T) {
	systemtest.Only(t)
	t.Parallel()
	env := slurm(t)
	program := etherealtest.Binary(t)
	run := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Env = env
		var errs bytes.Buffer
		c.Stderr = &errs
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, errs.String())
		}
		return string(out)
	}
	until(t, time.Minute, "both nodes are idle", func() bool {
		c := exec.Command("sinfo", "-h", "-N", "-o", "%N %T")
		c.Env = env
		out, err := c.Output()
		return err == nil && string(out) == "n0 idle\nn1 idle\n"
	})
	sweep := slurmSweep(t)
	dir := filepath.Join(t.TempDir(), "results")
	submit := func() {
		t.Helper()
		run(program, "bench", "submit", sweep, "--dir", dir, "--slurm", "--tasks", "8", "--now")
	}
	ended := func() {
		t.Helper()
		until(t, 5*time.Minute, "the queue is empty", func() bool { return run("squeue", "-h") == "" })
	}
	status := func() (s cluster.Status) {
		t.Helper()
		if err := json.Unmarshal([]byte(run(program, "bench", "status", dir, "-o", "json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	submit()
	// Task 7 waits behind the others: it is cancelled before it has a result. Who runs on n0 is killed, as the kernel
	// does for memory.
	id, _, _ := strings.Cut(run("squeue", "-h", "-r", "-t", "PD", "-o", "%F", "-n", "ethereal-slurm"), "\n")
	running := func(node string) string {
		return strings.TrimSpace(run("squeue", "-h", "-t", "R", "-w", node, "-n", "ethereal-slurm", "-o", "%K"))
	}
	until(t, time.Minute, "tasks run on both nodes", func() bool { return running("n0") != "" && running("n1") != "" })
	run("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
	run("scancel", id+"_7")
	killed := running("n0")
	if killed != "" {
		// Slurm holds a task for two minutes whose script has not begun by then.
		log := filepath.Join(dir, fmt.Sprintf("shard-%s-of-8.jsonl", killed))
		until(t, time.Minute, "the task has begun", func() bool { _, err := os.Stat(log); return err == nil })
		run("scancel", "--batch", "--signal=KILL", id+"_"+killed)
	}
	ended()
	s := status()
	if len(s.Missing) == 0 || s.Done+len(s.Missing) != s.Runs || s.Tasks[7].Done != 0 {
		t.Fatalf("after a killed task: %+v", s)
	}
	for _, m := range s.Missing {
		if task := strconv.Itoa(m.Task); task != "7" && task != killed {
			t.Errorf("%s of task %s is missing; only tasks 7 and %s were ended", m.Run, task, killed)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "slurm-merge.log"))
	if want := fmt.Sprintf("%d of %d runs are missing", len(s.Missing), s.Runs); err != nil || !strings.Contains(string(log), want) {
		t.Errorf("the merge said %q, %v; want %q", log, err, want)
	}
	t.Logf("task 7 cancelled, task %s killed, n1 drained: %d of %d done, by %v", killed, s.Done, s.Runs, s.Places)

	run("scontrol", "update", "NodeName=n1", "State=RESUME")
	submit()
	script, err := os.ReadFile(filepath.Join(dir, cluster.ArrayFile))
	left := map[string]bool{}
	for _, m := range s.Missing {
		left[strconv.Itoa(m.Task)] = true
	}
	want := "#SBATCH --array=" + strings.Join(slices.Sorted(maps.Keys(left)), ",") + "\n"
	if want = strings.Replace(want, "6,7", "6-7", 1); err != nil || !strings.Contains(string(script), want) {
		t.Errorf("what is submitted again: %v\n%s", err, script)
	}
	ended()
	if s := status(); s.Done != s.Runs || len(s.Builds) != 1 {
		t.Fatalf("in the end: %+v", s)
	}
	plain := filepath.Join(t.TempDir(), "plain.jsonl")
	run(program, "bench", sweep, "--quiet", "--out", plain)
	got := run(program, "bench", "merge", filepath.Join(dir, "merged.jsonl"), "--sweep", sweep, "--comparable")
	want = run(program, "bench", "merge", plain, "--sweep", sweep, "--comparable")
	if got != want || strings.Count(got, "\n") != s.Runs {
		t.Errorf("with Slurm %d lines, without %d, and they differ", strings.Count(got, "\n"), strings.Count(want, "\n"))
	}
}

// slurmSweep writes a sweep of sixteen runs, of tenths of a second each.
func slurmSweep(t *testing.T) string {
	t.Helper()
	scenarioPath, err := filepath.Abs(demo)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := "name: slurm\nparts:\n  - scenario: " + scenarioPath +
		"\n    set: {seeds: 1..8, failures: [{name: healthy}], collectives: [{kind: all-to-all, bytes: 1MB}]}\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}
