//go:build linux

package live_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// privileges returns the options about privileges of docs/verbs.md's command that starts the image.
func privileges(t *testing.T) (options []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/verbs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, ok := strings.Cut(string(page), "\n    podman run ")
	if !ok {
		t.Fatal("docs/verbs.md does not start the image")
	}
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	for i, word := range words[:len(words)-1] {
		if strings.HasPrefix(word, "--cap-") || word == "--network" || word == "--security-opt" {
			options = append(options, word, words[i+1])
		}
	}
	return options
}

// TestImage starts the image of Containerfile.rdma with the privileges that docs/verbs.md names and no others, runs
// perftest in it, and cuts an uplink under it.
func TestImage(t *testing.T) {
	systemtest.Only(t)
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Skip("no podman")
	}
	image := os.Getenv("ETHEREAL_RDMA_IMAGE")
	if image == "" {
		t.Skip("ETHEREAL_RDMA_IMAGE names no image: make dist, then podman build -f build/dist/Containerfile.rdma -t ethereal-rdma build/dist")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	if out, err := exec.CommandContext(ctx, podman, "image", "exists", image).CombinedOutput(); err != nil {
		t.Skipf("podman has no image %s: %v %s", image, err, out)
	}
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) }) //nolint:errcheck // a folder for tests
	spec := leafSpine(2, 1)
	if err := os.WriteFile(filepath.Join(tmp, "fabric.yaml"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(tmp)
	args := append([]string{"run", "--rm", "--name", name, "-v", tmp + ":/tmp"}, privileges(t)...)
	up := exec.CommandContext(ctx, podman, append(args, image, "ethereal", "live", "up", "--fabric", "/tmp/fabric.yaml")...)
	var log bytes.Buffer
	up.Stderr = &log
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command(podman, "stop", "--time", "20", name).Run() //nolint:errcheck // Wait reports
		if err := up.Wait(); err != nil {
			t.Errorf("the container: %v %s", err, log.String())
		}
	})
	began := time.Now()
	if n, _ := out.Read(make([]byte, 1)); n == 0 {
		t.Fatalf("live up in the container: %s", log.String())
	}
	t.Logf("the fabric was up after %.1f s; privileges: %v", time.Since(began).Seconds(), privileges(t))
	command := func(args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, podman, append([]string{"exec", name, "ethereal", "live"}, args...)...)
	}
	words := strings.Fields("ib_write_bw -F -n 4000 -s 65536")
	testCut(t, command, spec, tmp, words, append(words, "10.0.0.2"))
}
