package cluster

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/internal/goldentest"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// TestDeal: every job is dealt once, the order of the jobs does not matter, and no shard has more than the mean and the
// longest.
func TestDeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "shards")
		seconds := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 200).Draw(t, "seconds")
		jobs := make([]Job, len(seconds))
		for i, s := range seconds {
			jobs[i] = Job{Hash: fmt.Sprintf("%04d", i), Seconds: s}
		}
		of := AssignShards(jobs, n)
		work := make([]float64, n)
		sum, longest := 0.0, 0.0
		for i, j := range jobs {
			work[of[i]] += j.Seconds
			sum, longest = sum+j.Seconds, max(longest, j.Seconds)
		}
		for s, w := range work {
			if w > sum/float64(n)+longest+1 {
				t.Errorf("shard %d has %g s of %g, the longest %g", s, w, sum, longest)
			}
		}
		perm := rapid.Permutation(jobs).Draw(t, "order")
		for i, s := range AssignShards(perm, n) {
			var k int
			if _, err := fmt.Sscanf(perm[i].Hash, "%d", &k); err != nil || of[k] != s {
				t.Errorf("job %d is in shard %d, in another order in %d", k, of[k], s)
			}
		}
	})
}

func TestParseShard(t *testing.T) {
	for text, want := range map[string]Shard{"0/1": {0, 1}, "7/8": {7, 8}, "8/8": {}, "-1/8": {}, "1": {}, "a/b": {}, "0/0": {}, "1/8/2": {}} {
		got, err := ParseShard(text)
		if got != want || (err == nil) != (want.Of > 0) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestNeeds(t *testing.T) {
	jobs := []Job{{"a", "", 1000, 100}, {"b", "", 400, 50}, {"c", "", 500, 10}}
	got := ResourcesFor(jobs, 2, 2, 1000)
	// The second shard has two jobs at a time, the first one longest.
	if want := (Resources{2, 4000, 1650}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := ResourcesFor(jobs, 1, 1, 0); got != (Resources{1, 4 * 1900, 150}) {
		t.Errorf("%+v", got)
	}
}

func line(hash, version, host string, wall float64, cct any) string {
	return fmt.Sprintf(`{"run_sha256":%q,"cct_us":%v,"wall_ms":%g,"version":%q,"ran_on":{"host":%q,"cores":1,"system":"x"},"links":[]}`+"\n",
		hash, cct, wall, version, host)
}

func put(t *testing.T, name string, lines ...string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestMerge(t *testing.T) {
	dir := t.TempDir()
	one := put(t, filepath.Join(dir, "1"), line("b", "v1", "n0", 1, 5), line("a", "v1", "n0", 1, 6.25), `{"run_sha`)
	two := put(t, filepath.Join(dir, "2"), line("a", "v1", "n1", 2, 6.25), line("c", "v1", "n1", 2, "null"))
	bad := put(t, filepath.Join(dir, "3"), line("c", "v2", "n2", 2, 7))
	merge := func(order []string, files ...string) (string, error) {
		t.Helper()
		lines, damaged, err := Read(files...)
		if err != nil || len(damaged) > 0 {
			t.Fatal(err)
		}
		m, err := Merge(lines, order)
		if err != nil {
			return "", err
		}
		text, err := m.Encode(true)
		return string(text), err
	}
	got, err := merge([]string{"c", "a"}, one, two)
	want := `{"cct_us":null,"links":[],"run_sha256":"c"}` + "\n" + `{"cct_us":6.25,"links":[],"run_sha256":"a"}` + "\n" +
		`{"cct_us":5,"links":[],"run_sha256":"b"}` + "\n"
	if err != nil || got != want {
		t.Errorf("%v:\n%s", err, cmp.Diff(want, got))
	}
	if other, err := merge([]string{"c", "a"}, two, one); err != nil || other != got {
		t.Errorf("files in another order: %v\n%s", err, other)
	}
	_, err = merge(nil, one, two, bad)
	if err == nil || !strings.Contains(err.Error(), "run c differs in cct_us") || !strings.Contains(err.Error(), "version v1, ran on n1") ||
		!strings.Contains(err.Error(), "version v2, ran on n2") {
		t.Errorf("differing results: %v", err)
	}
	// In one file the newer line counts.
	again := put(t, filepath.Join(dir, "4"), line("c", "v1", "n1", 2, 6), line("c", "v2", "n1", 2, 7))
	if got, err := merge(nil, again, bad); err != nil || strings.Count(got, "\n") != 1 {
		t.Errorf("%v: %s", err, got)
	}
}

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	f := Folder(filepath.Join(dir, "new"))
	jobs := []Job{{"a", "run a", 10, 1}, {"b", "run b", 4, 1}, {"c", "run c", 3, 1}}
	plan := Plan{Sweep: "/s.yaml", Tasks: 2, Runs: RunsHash(jobs)}
	if err := f.Begin(plan); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Plan(); err != nil || got != plan {
		t.Fatalf("plan %+v, %v", got, err)
	}
	if err := f.Begin(Plan{Runs: RunsHash(jobs[1:])}); err == nil || !strings.Contains(err.Error(), "other runs") {
		t.Errorf("another sweep: %v", err)
	}
	// a took twice what was estimated; b failed; what an earlier attempt failed at is done.
	put(t, filepath.Join(string(f), Shard{0, 2}.File()), line("a", "v", "n0", 20_000, 1), `{"run_`)
	for _, hash := range []string{"b", "a"} {
		if err := f.Failed(Shard{1, 2}, Failure{Hash: hash, Run: "run " + hash, Error: "broke", RanOn: &report.Machine{Host: "n1"}}); err != nil {
			t.Fatal(err)
		}
	}
	s, err := f.Status(jobs, 2)
	if err != nil {
		t.Fatal(err)
	}
	if s.Done != 1 || len(s.Missing) != 2 || len(s.Failed) != 1 || s.Failed[0].Hash != "b" || s.Places["n0"] != 1 ||
		math.Abs(s.Seconds-14) > 1e-9 || s.Tasks[0].Done != 1 || s.Tasks[1].Runs != 2 || s.Tasks[1].Failed != 1 || s.Longest != s.Tasks[1].Seconds {
		t.Errorf("%+v", s)
	}
}

// TestFiles holds what engines are given.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	o := Order{
		Name: "Demo sweep", Dir: dir, Merged: "/shared/demo/merged.jsonl", Tasks: 8, Left: []int{0, 1, 2, 5, 7}, Need: Resources{2, 301, 90 << 20},
		Bench: []string{"/ethereal", "bench", "/shared/it's.yaml", "--dir", "/shared/demo", "--only", "$(x) ring"},
		Merge: []string{"/ethereal", "bench", "merge", "/shared/demo"}, Options: []string{"partition=long"},
		Image: "ethereal:1", VolumeClaim: "shared", Mount: "/shared",
	}
	if err := o.Slurm(); err != nil {
		t.Fatal(err)
	}
	if err := o.Kubernetes(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{ArrayFile, MergeFile, JobFile} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		goldentest.Compare(t, filepath.Join("testdata", name), bytes.ReplaceAll(got, []byte(dir), []byte("DIR")))
	}
	o.Options = []string{"partition=a\nrm -rf"}
	if err := o.Slurm(); err == nil {
		t.Error("an option of two lines is taken")
	}
}

// TestOutsiders: what people name their sweeps, folders and options is data in what a shell, Slurm, YAML and Kubernetes
// read.
func TestOutsiders(t *testing.T) {
	words := []string{
		"", " ", "a b", "it's", `"`, `\`, "$(id)", "`id`", "$HOME", "$$(SHARD)", "a$$b", "~", "*", "a;b", "a&b", "a|b", "<x>", "#x", "!", "{a,b}",
		"-x", "--", "é", "a:b", "- a", "x: [1", "%s", "{{.Name}}", "'\"'\"'",
	}
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+report.QuoteShell(words)).Output()
	if err != nil || string(out) != strings.Join(words, "\x00")+"\x00" {
		t.Errorf("a shell reads %q, %v", out, err)
	}
	o := Order{
		Name: "x: [1 # '\"", Dir: t.TempDir(), Merged: "/m", Tasks: 1, Left: []int{0}, Need: Resources{1, 1, 1}, Bench: words, Merge: words,
		Image: `i"$(x)`, VolumeClaim: "c: '", Mount: "/m #",
	}
	if err := o.Kubernetes(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.Dir, JobFile))
	if err != nil {
		t.Fatal(err)
	}
	type container struct {
		Image   string   `yaml:"image"`
		Command []string `yaml:"command"`
	}
	var job struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []container `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal(text, &job); err != nil {
		t.Fatal(err)
	}
	got := job.Spec.Template.Spec.Containers[0]
	var read []string
	for _, w := range got.Command[:len(words)] {
		read = append(read, strings.ReplaceAll(w, "$$", "$")) // as Kubernetes does, whose variables are $(NAME)
		if strings.Contains(strings.ReplaceAll(w, "$$", ""), "$") {
			t.Errorf("%q: Kubernetes may see a variable", w)
		}
	}
	if d := cmp.Diff(words, read); d != "" || got.Image != o.Image {
		t.Errorf("image %q, command (-want +got):\n%s", got.Image, d)
	}
	for _, bad := range []string{"a\nb", "a\rb", "a\x00b", "a\u0085kind: x", "a\u2028kind: x", "a\u2029b", "\xff"} {
		o.Name = bad
		if err := o.Kubernetes(); err == nil {
			t.Errorf("a sweep called %q is taken", bad)
		}
	}
	for _, bad := range []string{" ", "%j", `\`, "'", `"`, "#"} {
		o.Name, o.Dir = "x", "/tmp/a"+bad
		if err := o.Slurm(); err == nil {
			t.Errorf("a folder %q is taken", o.Dir)
		}
	}
}
