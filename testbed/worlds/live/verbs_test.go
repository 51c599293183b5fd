//go:build linux

package live_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// verbsLibrary builds the library that RDMA programs have preloaded.
func verbsLibrary(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("no infiniband/verbs.h (Debian: libibverbs-dev)")
	}
	dir := "../../../roce/device/interpose/"
	sources, err := filepath.Glob(dir + "*.c")
	if err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(t.TempDir(), "libethereal-verbs.so")
	args := append([]string{
		"-std=c11", "-O2", "-fPIC", "-shared", "-Wl,-soname,libethereal-verbs.so", "-Wl,--version-script=" + dir + "exports.map", "-o", lib,
	}, sources...)
	if out, err := exec.Command("cc", append(args, "-Wl,--no-as-needed", "-libverbs", "-lpthread")...).CombinedOutput(); err != nil {
		t.Skipf("no C compiler that builds the library: %v %s", err, out)
	}
	return lib
}

// exploring brings a fabric up, with further flags, until the test ends. It returns what makes commands of
// `ethereal live`, and the folder where their folder is.
func exploring(t *testing.T, spec string, flags ...string) (command func(args ...string) *exec.Cmd, tmp string) {
	t.Helper()
	bin, lib := etherealtest.Binary(t), verbsLibrary(t)
	tmp, err := os.MkdirTemp("/tmp", "ethereal-test-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	most := limit
	if end, ok := t.Deadline(); ok { // go test -timeout
		most = max(most, time.Until(end)-time.Minute)
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	t.Cleanup(cancel)
	command = func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, bin, append([]string{"live"}, args...)...)
		c.Env = append(os.Environ(), "TMPDIR="+tmp, "ETHEREAL_VERBS_LIBRARY="+lib)
		return c
	}
	file := filepath.Join(tmp, "fabric.yaml")
	if err := os.WriteFile(file, []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	up := command(append([]string{"up", "--fabric", file, "--payload", "2048"}, flags...)...)
	up.Stderr = &log
	out, err := up.StdoutPipe()
	if err == nil {
		err = up.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := out.Read(make([]byte, 1)); n == 0 {
		up.Wait() //nolint:errcheck // it has failed
		if text := log.String(); strings.Contains(text, "no network namespaces") || strings.Contains(text, "operation not permitted") {
			t.Skipf("no namespaces here: %s", text)
		}
		t.Fatalf("live up: %s", log.String())
	}
	t.Cleanup(func() {
		command("down").Run() //nolint:errcheck // Wait reports
		if err := up.Wait(); err != nil {
			t.Errorf("live up: %v %s", err, log.String())
		}
	})
	return command, tmp
}

// limit is how long a fabric is up, at most, unless the tests may take longer.
const limit = 15 * time.Minute

// leafSpine is a fabric of two ToRs.
func leafSpine(spines, hostsPerToR int) string {
	return fmt.Sprintf("kind: leaf-spine\ntors: 2\nspines: %d\nhosts_per_tor: %d\n"+
		"host_link: {rate: 100Mb/s}\ntor_uplink: {rate: 100Mb/s}\n", spines, hostsPerToR)
}

// pair runs a program in h0 and, as its client, in h1, and returns what the client said.
func pair(t *testing.T, command func(args ...string) *exec.Cmd, words ...string) string {
	t.Helper()
	return couple(t, command, words, append(slices.Clone(words), "h0"), nil)
}

// couple runs a server in h0 and a client in h1, and returns what the client said. It calls during, unless that is nil,
// while the client runs.
func couple(t *testing.T, command func(args ...string) *exec.Cmd, served, asked []string, during func(ended <-chan struct{})) string {
	t.Helper()
	if _, err := exec.LookPath(served[0]); err != nil {
		t.Skipf("%s is not installed (Debian: perftest, rdmacm-utils, ibverbs-utils, ucx-utils)", served[0])
	}
	var said [2]bytes.Buffer
	server := command(append([]string{"exec", "h0", "--"}, served...)...)
	server.Stdout, server.Stderr = &said[0], &said[0]
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var err error
	for range 20 { // until the server listens
		time.Sleep(100 * time.Millisecond)
		client := command(append([]string{"exec", "h1", "--"}, asked...)...)
		said[1].Reset()
		client.Stdout, client.Stderr = &said[1], &said[1]
		if err = client.Start(); err != nil {
			break
		}
		ended := make(chan struct{})
		go func() {
			err = client.Wait()
			close(ended)
		}()
		if during != nil {
			during(ended)
		}
		if <-ended; err == nil || !notListening(said[1].String()) {
			break
		}
	}
	if err != nil {
		server.Process.Kill() //nolint:errcheck // it has ended
	}
	if other := server.Wait(); err != nil || other != nil {
		t.Fatalf("client: %v, server: %v\n%s\n%s", err, other, said[1].String(), said[0].String())
	}
	return said[1].String()
}

// notListening reports whether a client says that it found no server.
func notListening(said string) bool {
	return slices.ContainsFunc([]string{"onnect", "REJECTED", "UNREACHABLE"}, func(s string) bool { return strings.Contains(said, s) })
}

// uplinks reads over P4Runtime how many bytes of data the ToR of h1 has sent by each uplink.
func uplinks(t *testing.T, spec, dir string) []int64 {
	t.Helper()
	parsed, err := fabric.ParseSpec("fabric.yaml", []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(parsed)
	if err != nil {
		t.Fatal(err)
	}
	tor := f.ToROf(1)
	sockets, err := filepath.Glob(filepath.Join(dir, "ethereal-live-*", f.Name(tor)+".sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the socket of %s: %v, %v", f.Name(tor), sockets, err)
	}
	info := daemon.Target{P4Runtime: "unix:" + sockets[0], DeviceID: uint64(tor) + 1}
	cfg := daemon.Config{Core: controller.Config{Fabric: f}, Targets: map[fabric.NodeID]daemon.Target{tor: info}}
	x, err := deployment.Open(cfg, func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := x.Switch(tor).Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var bytes []int64
	for port := 2; port <= f.Node(tor).Ports(); port++ { // the first one leads to the host
		bytes = append(bytes, got["port_tx_data"][int64(port)].Bytes)
	}
	return bytes
}

// counted returns a counter of hosts, added over h0 and h1.
func counted(t *testing.T, dir, name string) (n float64) {
	t.Helper()
	for _, host := range []string{"h0", "h1"} {
		sockets, err := filepath.Glob(filepath.Join(dir, "ethereal-live-*", host+".admin.sock"))
		if err != nil || len(sockets) != 1 {
			t.Fatalf("the socket of %s: %v, %v", host, sockets, err)
		}
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", sockets[0])
		}}}
		answer, err := c.Get("http://host/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close() //nolint:errcheck // read to its end
		if err != nil {
			t.Fatal(err)
		}
		_, value, found := strings.Cut(string(text), "\nethereal_host_"+name+"_total ")
		value, _, _ = strings.Cut(value, "\n")
		k, err := strconv.ParseFloat(value, 64)
		if !found || err != nil {
			t.Fatalf("%s: no %q in its metrics: %v", host, name, err)
		}
		n += k
	}
	return n
}

// testLoads has a connection's bytes go by all uplinks alike, and by those that are left when one is dead. On a machine
// that is busy with others, hosts change the paths of queue pairs that got no processor for long: then it is measured
// again, and skipped when that does not help.
func testLoads(t *testing.T, command func(args ...string) *exec.Cmd, spec, dir string) {
	const messages, size = 100, 65536
	once := func(dead int) error {
		t.Helper()
		before := uplinks(t, spec, dir)
		pair(t, command, "ib_write_bw", "-F", "-n", fmt.Sprint(messages), "-s", fmt.Sprint(size))
		var all []int64
		for i, n := range uplinks(t, spec, dir) {
			n -= before[i]
			if i != dead {
				all = append(all, n)
			} else if n != 0 {
				t.Errorf("%d bytes by the dead uplink", n)
			}
		}
		t.Logf("%d messages of %d bytes: %d by uplink", messages, size, all)
		least, most := slices.Min(all), slices.Max(all)
		if least*int64(len(all)) < messages*size*98/100 || float64(most) > 1.25*float64(least) {
			return fmt.Errorf("a connection of %d bytes put %d on the uplinks", messages*size, all)
		}
		return nil
	}
	alike := func(dead int) {
		t.Helper()
		var err error
		flips := counted(t, dir, "flips")
		for range 5 {
			if err = once(dead); err == nil {
				return
			}
			if counted(t, dir, "flips") == flips {
				t.Fatal(err)
			}
		}
		t.Skipf("hosts change the paths of what they send: the machine is busy (%v)", err)
	}
	alike(-1)
	if out, err := command("exec", "tor1", "--", "ip", "link", "set", "tor1-2", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	alike(0)
}

// testGIDs: programs find a RoCE NIC's four GIDs with their types, by verbs and in sysfs.
func testGIDs(t *testing.T, command func(args ...string) *exec.Cmd) {
	out, err := command("exec", "h0", "--", "ibv_devinfo", "-v").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if index, gid, ok := strings.Cut(line, "]:"); ok && strings.Contains(index, "GID[") {
			got = append(got, strings.TrimSpace(gid))
		}
	}
	want := []string{
		"fe80:0000:0000:0000:00e7:00ff:fe00:0000, RoCE v1", "fe80::e7:ff:fe00:0, RoCE v2",
		"0000:0000:0000:0000:0000:ffff:0a00:0002, RoCE v1", "::ffff:10.0.0.2, RoCE v2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("ibv_devinfo: %q, want %q", got, want)
	}
	const port = "/sys/class/infiniband/ethereal0/ports/1/"
	out, err = command("exec", "h0", "--", "cat", port+"gid_attrs/types/2", port+"gid_attrs/types/3", port+"gid_attrs/ndevs/3",
		port+"gids/3", port+"link_layer").Output()
	if want := "IB/RoCE v1\nRoCE v2\neth0\n0000:0000:0000:0000:0000:ffff:0a00:0002\nEthernet\n"; err != nil || string(out) != want {
		t.Errorf("sysfs: %v, %q, want %q", err, out, want)
	}
	if out, err := command("exec", "h0", "--", "cat", port+"gid_attrs/types/4").Output(); err == nil {
		t.Errorf("the type of index 4 is %q", out)
	}
}

// testPort: the device's port follows the host's interface, by state and by event, and traffic continues when it is
// back.
func testPort(t *testing.T, command func(args ...string) *exec.Cmd) {
	for _, name := range []string{"ibv_asyncwatch", "ibv_devinfo", "ping"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s (Debian: ibverbs-utils, iputils-ping)", name)
		}
	}
	in := func(words ...string) string {
		out, err := command(append([]string{"exec", "h0", "--"}, words...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v %s", words, err, out)
		}
		return string(out)
	}
	watch := command("exec", "h0", "--", "stdbuf", "-oL", "ibv_asyncwatch", "-d", "ethereal0")
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	said := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatalf("ibv_asyncwatch prints %q, want %q", lines.Text(), want)
		}
	}
	defer func() {
		watch.Process.Kill() //nolint:errcheck // it has ended then
		watch.Wait()         //nolint:errcheck // killed
	}()
	said("ethereal0: async event FD")
	state := func(want string) {
		t.Helper()
		if got := in("ibv_devinfo", "-d", "ethereal0"); !strings.Contains(got, want) {
			t.Errorf("want %s:\n%s", want, got)
		}
	}
	state("PORT_ACTIVE")
	in("ip", "link", "set", "eth0", "down")
	said("(10), port 1")
	state("PORT_DOWN")
	in("ip", "link", "set", "eth0", "up")
	said("(9), port 1")
	state("PORT_ACTIVE")
	in("ping", "-c", "1", "-w", "10", "h1")
	pair(t, command, "ib_write_bw", "-F", "-n", "100", "-s", "20000")
}

// TestVerbs runs RDMA programs of Debian, as they are, between two hosts.
func TestVerbs(t *testing.T) {
	systemtest.Only(t)
	if _, err := exec.LookPath("ibv_rc_pingpong"); err != nil {
		t.Skip("no ibv_rc_pingpong (Debian: ibverbs-utils)")
	}
	spec := leafSpine(4, 1)
	command, tmp := exploring(t, spec)
	for _, program := range []string{
		"ibv_rc_pingpong -g 0 -n 200 -e -c", "ibv_srq_pingpong -g 1 -n 200 -e -q 4", "ib_write_bw -F -n 100 -s 20000",
		"ib_write_bw -d ethereal0 -x 3 -F -n 100 -s 20000", "ibv_ud_pingpong -g 0 -n 100", "ibv_ud_pingpong -g 3 -n 100",
		"ib_send_bw -F -n 100 -s 20000", "ib_read_bw -F -n 50 -s 20000", "ib_atomic_bw -F -n 50", "ib_write_lat -F -n 50 -s 64",
	} {
		words := strings.Fields(program)
		t.Run(words[0], func(t *testing.T) { pair(t, command, words...) })
	}
	t.Run("port", func(t *testing.T) { testPort(t, command) })
	t.Run("gids", func(t *testing.T) { testGIDs(t, command) })
	t.Run("ipc", func(t *testing.T) {
		var ipc [2]string
		for i, host := range []string{"h0", "h1"} {
			out, err := command("exec", host, "--", "readlink", "/proc/self/ns/ipc").Output()
			if ipc[i] = string(out); err != nil || !strings.HasPrefix(ipc[i], "ipc:") {
				t.Fatalf("%s: %q, %v", host, out, err)
			}
		}
		if ipc[0] == ipc[1] {
			t.Errorf("h0 and h1 share an IPC namespace, %s", ipc[0])
		}
	})
	t.Run("ucx_perftest", func(t *testing.T) { // takes shared memory between processes of one IPC namespace
		couple(t, command, []string{"ucx_perftest"}, []string{"ucx_perftest", "-t", "tag_lat", "-n", "100", "-w", "10", "h0"}, nil)
	})
	t.Run("ucx_perftest by index", func(t *testing.T) {
		ucx := []string{"env", "UCX_TLS=rc_v,ud_v,self", "UCX_IB_GID_INDEX=3", "ucx_perftest"}
		if _, err := exec.LookPath(ucx[3]); err != nil {
			t.Skip("no ucx_perftest (Debian: ucx-utils)")
		}
		couple(t, command, ucx, append(slices.Clone(ucx), "-t", "tag_lat", "-n", "100", "-w", "10", "h0"), nil)
	})
	t.Run("loads", func(t *testing.T) { testLoads(t, command, spec, tmp) })
}
