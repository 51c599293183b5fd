//go:build linux

package live_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// mpiProgram compiles roce/device/testdata/collectives.c, or skips the test if a part of Open MPI is missing.
func mpiProgram(t *testing.T) string {
	t.Helper()
	systemtest.Program(t, "mpirun", "", "Debian: openmpi-bin")
	mpicc := systemtest.Program(t, "mpicc", "", "Debian: libopenmpi-dev")
	program := filepath.Join(t.TempDir(), "collectives")
	out, err := exec.Command(mpicc, "-O2", "-o", program, "../../../roce/device/testdata/collectives.c").CombinedOutput()
	if strings.Contains(string(out), "mpi.h: No such file") { // Debian's openmpi-bin has an mpicc
		t.Skip("no mpi.h: Debian: libopenmpi-dev")
	}
	if err != nil {
		t.Fatalf("mpicc: %v %s", err, out)
	}
	return program
}

// TestMPI has a program of MPI compare every byte of its collectives while links are cut. ETHEREAL_CUTS=100 cuts as
// many, in a fat-tree with a rank on each of its 16 hosts; by default there are four hosts and three cuts.
func TestMPI(t *testing.T) {
	program := mpiProgram(t)
	cuts, ranks, spec := 3, 4, leafSpine(2, 2)
	links := []string{"tor0-3", "tor1-4"}
	if given := os.Getenv("ETHEREAL_CUTS"); given != "" {
		var err error
		if cuts, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
		ranks = 16
		spec = "kind: fat-tree\nk: 4\nhost_link: {rate: 100Mb/s}\ntor_uplink: {rate: 100Mb/s}\nagg_uplink: {rate: 100Mb/s}\n"
		links = []string{"tor0-3", "tor3-4", "agg1-3", "tor5-3", "agg6-4", "tor7-4"}
	}
	command, _ := exploring(t, spec)

	stop := program + ".stop" // ends the program
	var said bytes.Buffer
	run := command("mpirun", "-n", fmt.Sprint(ranks), program, stop)
	said.Grow(1 << 16)
	run.Stdout, run.Stderr = &said, &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	wait := func(d time.Duration) bool {
		select {
		case err := <-ended:
			t.Fatalf("mpirun ended before its time: %v\n%s", err, said.String())
		case <-time.After(d):
		}
		return true
	}
	for begun := time.Now(); ; wait(50 * time.Millisecond) { // until all ranks have each other
		if _, err := os.Stat(stop + ".begun"); err == nil {
			break
		}
		if time.Since(begun) > limit/4 {
			t.Fatalf("no round ended within %v", limit/4)
		}
	}
	for i := range cuts {
		port := links[i%len(links)]
		for _, state := range []string{"down", "up"} {
			if out, err := command("exec", "tor0", "--", "ip", "link", "set", port, state).CombinedOutput(); err != nil {
				t.Fatalf("ip link set %s %s: %v %s", port, state, err, out)
			}
			wait(300 * time.Millisecond)
		}
	}
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil || !strings.Contains(said.String(), fmt.Sprintf("%d ranks", ranks)) {
			t.Fatalf("mpirun: %v\n%s", err, said.String())
		}
	case <-time.After(limit / 4):
		t.Fatal("the ranks did not end")
	}
	t.Logf("%d cuts: %s", cuts, said.String())
}
