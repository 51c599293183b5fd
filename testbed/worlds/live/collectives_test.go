//go:build linux

package live_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// fourHosts is a fabric whose hosts reach each other by two spines. The suites send gigabytes.
const fourHosts = "kind: leaf-spine\ntors: 4\nspines: 2\nhosts_per_tor: 1\nhost_link: {rate: 1Gb/s}\ntor_uplink: {rate: 1Gb/s}\n"

// crossing has run send more than least bytes from h1 to the other hosts.
func crossing(t *testing.T, dir string, least int64, run func()) {
	t.Helper()
	sent := func() (n int64) {
		for _, bytes := range uplinks(t, fourHosts, dir) {
			n += bytes
		}
		return n
	}
	before := sent()
	run()
	n := sent() - before
	t.Logf("%d bytes of RDMA by the uplinks of h1's ToR", n)
	if n < least {
		t.Errorf("that is less than %d: the suite used something else", least)
	}
}

// TestMPICH runs the folders coll and pt2pt of MPICH's test/mpi on four hosts, over UCX. MPICH_TESTS names the folder
// test/mpi with its programs; MPICH_MPIEXEC names MPICH's mpiexec, by default Debian's.
func TestMPICH(t *testing.T) {
	systemtest.Only(t)
	tests := os.Getenv("MPICH_TESTS")
	if tests == "" {
		t.Skip("name a built folder test/mpi of MPICH's sources in MPICH_TESTS")
	}
	mpiexec, err := exec.LookPath(cmp.Or(os.Getenv("MPICH_MPIEXEC"), "mpiexec.mpich"))
	if err != nil {
		t.Skipf("%v (Debian: mpich)", err)
	}
	command, dir := exploring(t, fourHosts)
	script := func(name, line string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+line+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	rsh := script("rsh", "exec "+etherealtest.Binary(t)+` live rsh "$@"`)
	run := script("mpiexec", "exec "+mpiexec+" -launcher rsh -launcher-exec "+rsh+` -iface eth0 -hosts h0,h1,h2,h3 "$@"`)
	for _, folder := range []string{"pt2pt", "coll"} {
		t.Run(folder, func(t *testing.T) {
			results := filepath.Join(dir, folder+".tap")
			c := command("exec", "h0", "--", "./runtests", "-mpiexec="+run, "-tests=testlist", "-testdirs="+folder, "-tapfile="+results)
			c.Dir = tests
			// No shared memory: processes of one host use its device, too.
			c.Env = append(c.Env, "UCX_TLS=rc_v,ud_v,self", "MPIR_CVAR_NOLOCAL=1", "MPITEST_CLEANUP=0", "MPITEST_MEMORY_TOTAL=4",
				"MPITEST_TIMEOUT_MULTIPLIER=4")
			crossing(t, dir, 1<<20, func() {
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("runtests: %v %s", err, out[max(0, len(out)-2000):])
				}
			})
			text, err := os.ReadFile(results)
			if err != nil {
				t.Fatal(err)
			}
			passed, skipped, failed := 0, 0, 0
			for _, m := range regexp.MustCompile(`(?m)^(not )?ok .*- \./(\S+ \d+)(.*)$`).FindAllStringSubmatch(string(text), -1) {
				switch {
				case strings.Contains(m[3], "SKIP"):
					skipped++
					t.Logf("skipped: %s%s", m[2], m[3])
				case m[1] == "":
					passed++
				default:
					failed++
					t.Errorf("%s fails", m[2])
				}
			}
			t.Logf("%d passed, %d skipped, %d failed", passed, skipped, failed)
		})
	}
}

// glooLacks says why a test ends or blocks the whole suite, or fails by chance: gloo's transport ibverbs does not do
// what it asks for.
func glooLacks(test, parameter string) string {
	switch {
	case strings.HasPrefix(test, "LargeBroadcast/"):
		return "it writes 2 GiB at once without asking for the device's longest message, which is 1 GiB, as ConnectX's is"
	case strings.Contains(test, ".AbortSend/"):
		return "waitSend fails where no send was posted"
	case strings.Contains(test, ".RecvFromAny") && !strings.Contains(parameter, "(3, 2, "):
		return "a receive from several ranks is not implemented"
	case strings.HasPrefix(test, "AllreduceBcube") && strings.Contains(parameter, ", 1, 32-byte"):
		return "with one element, ranks share it: gloo changes it while it is being sent"
	}
	return ""
}

// TestGloo runs gloo's tests of its transport ibverbs on one host, and its benchmark, which compares results, on four.
// GLOO_BUILD names the folder gloo of a build with USE_IBVERBS, BUILD_TEST and BUILD_BENCHMARK.
func TestGloo(t *testing.T) {
	systemtest.Only(t)
	build := os.Getenv("GLOO_BUILD")
	if build == "" {
		t.Skip("name the folder gloo of gloo's build in GLOO_BUILD (cmake -DUSE_IBVERBS=ON -DBUILD_TEST=ON -DBUILD_BENCHMARK=ON)")
	}
	command, dir := exploring(t, fourHosts)
	t.Run("tests", func(t *testing.T) {
		suite := filepath.Join(build, "test/gloo_test")
		list, err := exec.Command(suite, "--gtest_list_tests").Output()
		if err != nil {
			t.Fatalf("%s: %v", suite, err)
		}
		c := command("exec", "h0", "--", suite)
		c.Env = append(c.Env, "GTEST_FILTER="+strings.Join(overVerbs(t, string(list)), ":"))
		judged(t, c, nil)
	})
	for _, algorithm := range []string{
		"allgather", "allgather_ring", "allreduce_ring", "allreduce_ring_chunked", "allreduce_halving_doubling", "allreduce_bcube",
		"alltoall", "barrier_all_to_all", "broadcast", "broadcast_one_to_all", "pairwise_exchange", "reduce", "reduce_scatter", "scatter",
	} {
		t.Run(algorithm, func(t *testing.T) {
			crossing(t, dir, 1<<10, func() { glooBenchmark(t, command, filepath.Join(build, "benchmark/benchmark"), algorithm) })
		})
	}
}

// overVerbs returns the tests in a list whose first parameter is 3, the transport ibverbs, and logs those that gloo
// cannot do.
func overVerbs(t *testing.T, list string) (tests []string) {
	suite := ""
	for line := range strings.Lines(list) {
		name, parameter, _ := strings.Cut(line, "#")
		name, inside := strings.CutPrefix(name, "  ")
		name = strings.TrimSpace(name)
		switch {
		case !inside:
			suite = name
		case strings.Contains(parameter, "GetParam() = (3,"):
			if why := glooLacks(suite+name, parameter); why != "" {
				t.Logf("%s%s: %s", suite, name, why)
				continue
			}
			tests = append(tests, suite+name)
		}
	}
	return tests
}

// glooBenchmark runs one of the benchmark's algorithms with a process on each host.
func glooBenchmark(t *testing.T, command func(args ...string) *exec.Cmd, program, algorithm string) {
	var ranks [4]*exec.Cmd
	var said [4]bytes.Buffer
	meet := t.TempDir()
	for i := range ranks {
		rank := fmt.Sprint(i)
		ranks[i] = command("exec", "h"+rank, "--", program, "-s", "4", "-r", rank, "--shared-path", meet, "-x", algorithm,
			"-t", "ibverbs", "--ib-device", "ethereal0", "--elements", "100000", "--iteration-count", "20", algorithm)
		ranks[i].Stdout, ranks[i].Stderr = &said[i], &said[i]
		if err := ranks[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range ranks {
		if err := ranks[i].Wait(); err != nil {
			t.Errorf("h%d: %v %s", i, err, said[i].String())
		}
	}
}
