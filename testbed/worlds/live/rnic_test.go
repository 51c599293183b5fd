//go:build linux

package live_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/adopt"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/owners"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// rnicLibrary builds what labels queue pairs on real RNICs, and what stands in for one above the soft device.
func rnicLibrary(t *testing.T) (preload string) {
	t.Helper()
	dir, tmp := "../../../hostagent/verbs/rnic/", t.TempDir()
	lib, device := filepath.Join(tmp, "libethereal-rnic.so"), filepath.Join(tmp, "device.so")
	for _, args := range [][]string{
		{"-DPATIENCE_MS=60000", "-Wl,--version-script=" + dir + "exports.map", "-o", lib, dir + "rnic.c", dir + "agent.c", "-libverbs", "-lpthread"},
		{"-Wl,--version-script=" + dir + "testdata/device.map", "-o", device, dir + "testdata/device.c"},
	} {
		if out, err := exec.Command("cc", append([]string{"-std=gnu11", "-O2", "-fPIC", "-shared"}, args...)...).CombinedOutput(); err != nil {
			t.Skipf("no C compiler that builds the library: %v %s", err, out)
		}
	}
	return lib + ":" + device
}

// TestVerbsRNIC has perftest's four queue pairs, on the soft device in a real one's place, labelled by an agent that
// knows of them by libethereal-rnic alone: each by its own uplink, and another when that is dead. The program sees
// nothing of it.
func TestVerbsRNIC(t *testing.T) {
	systemtest.Only(t)
	if _, err := exec.LookPath("ib_write_bw"); err != nil {
		t.Skip("no ib_write_bw (Debian: perftest)")
	}
	text := leafSpine(4, 1)
	command, tmp := exploring(t, text)
	preload := rnicLibrary(t)
	spec, err := fabric.ParseSpec("fabric.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	socket, record := filepath.Join(tmp, "owners"), filepath.Join(tmp, "record")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	s := owners.NewServer()
	a, err := adopt.New(adopt.Config{Agent: hostagent.Config{Fabric: f, Host: 0}, Labels: s})
	if err != nil {
		t.Fatal(err)
	}
	s.OnTimeout = func(labeller.QP) {}
	wg.Go(func() { s.Run(ctx, lis) }) //nolint:errcheck // it ends with ctx
	wg.Go(func() { a.Run(ctx) })      //nolint:errcheck // it ends with ctx

	words := "ib_write_bw -F -D 4 -s 20000 -q 4"
	var said [2]bytes.Buffer
	server := command(append([]string{"exec", "h1", "--"}, strings.Fields(words)...)...)
	server.Stdout, server.Stderr = &said[0], &said[0]
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	listens := command("exec", "h1", "--", "timeout", "60", "sh", "-c", "until ss -ltn | grep -q :18515; do sleep 0.1; done")
	if out, err := listens.CombinedOutput(); err != nil {
		t.Fatalf("the server does not listen: %v %s %s", err, out, said[0].String())
	}
	client := command("exec", "h0", "--", "sh", "-c", fmt.Sprintf(
		"LD_PRELOAD=%s:$LD_PRELOAD ETHEREAL_OWNERS=unix:%s DEVICE_RECORD=%s exec %s h1", preload, socket, record, words))
	client.Stdout, client.Stderr = &said[1], &said[1]
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	lines := func() []string {
		text, _ := os.ReadFile(record) //nolint:errcheck // not there yet
		return strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(text)), " ", ","))
	}
	wait := func(n int, what string) []string {
		t.Helper()
		for end := time.Now().Add(time.Minute); len(lines()) < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %v\n%s\n%s", what, lines(), said[0].String(), said[1].String())
			}
		}
		return lines()
	}
	seen := map[string]bool{}
	for _, l := range wait(4, "queue pairs at RTR") {
		seen[strings.Split(l, ",")[2]] = true
	}
	for l := range 4 { // 0xFC000 | (label ^ 0x3F)
		if want := fmt.Sprint(0xFC000 | l ^ 0x3F); !seen[want] {
			t.Errorf("no flow label %s among %v", want, lines())
		}
	}
	link, err := f.LinkByName("tor0-spine1") // label 1
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(a.Adopted()) < 4 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	began := time.Now()
	down := &statepb.Update{Instance: "c", Epoch: 1, Snapshot: true, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}}
	if err := a.Update(down); err != nil {
		t.Error(err)
	}
	flip := strings.Split(wait(5, "a flip")[4], ",")
	t.Logf("flip %v %v after the agent's word", flip, time.Since(began))
	if flip[0] != "sport" || flip[2] != "49152" && flip[2] != "49154" && flip[2] != "49155" {
		t.Errorf("%v", flip)
	}
	if err := client.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said[1].String())
	}
	if err := server.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said[0].String())
	}
}
