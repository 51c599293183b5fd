//go:build linux

package process_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// BenchmarkTCP sends TCP with iperf3 for four seconds between two hosts, each with its own network stack, by a switch
// that runs lpm.p4, or by a bridge of Linux's; BMV2 may name a simple_switch_grpc. Offloads are the hosts': with them
// the stack hands over packets of up to 64 KiB, which the interpreter's ports cut.
func BenchmarkTCP(b *testing.B) {
	for _, name := range []string{"iperf3", "ethtool", "nsenter", "unshare", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			b.Skipf("it takes %s: %v", name, err)
		}
	}
	wheres := []string{"bridge", "interpreter", "kernel"}
	if os.Getenv("BMV2") != "" {
		wheres = append(wheres, "bmv2")
	}
	for _, where := range wheres {
		for _, offload := range []string{"off", "on"} {
			if where == "bmv2" && offload == "on" {
				continue // iperf3 waits for two minutes: nothing comes through
			}
			b.Run(where+"/offloads-"+offload, func(b *testing.B) {
				for b.Loop() {
					b.ReportMetric(tcp(b, where, offload, "4"), "Gb/s")
				}
			})
		}
	}
}

// TestTCPOffloads sends TCP between hosts with the offloads that veths have by default, for a second.
func TestTCPOffloads(t *testing.T) {
	systemtest.Only(t)
	for _, name := range []string{"iperf3", "ethtool", "nsenter", "unshare", "ip"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("it takes %s: %v", name, err)
		}
	}
	for _, where := range []string{"interpreter", "kernel"} {
		t.Run(where, func(t *testing.T) {
			rate := tcp(t, where, "on", "1")
			t.Logf("%.2f Gb/s", rate)
			if rate < 0.05 { // it was 0.006: what fits into the window, once
				t.Errorf("%.4f Gb/s", rate)
			}
		})
	}
}

// tcp returns what the receiver got, in Gb/s.
func tcp(b testing.TB, where, offload, seconds string) float64 {
	ns := porttest.Enter(b)
	var hosts []string
	for i := range 2 {
		ns.Veth(b, fmt.Sprintf("h%d", i), fmt.Sprintf("s%d", i), 1500)
		hosts = append(hosts, newStack(b, i, offload))
	}
	if where == "bridge" {
		shell(b, "ip link add br0 type bridge && ip link set s0 master br0 && ip link set s1 master br0 && ip link set br0 up")
	} else {
		command := []string{os.Getenv("BMV2")}
		if where != "bmv2" {
			command = []string{etherealtest.Binary(b), "switch", "--datapath", where}
		}
		p := startSwitch(b, ns, command, "s0", "s1")
		program, info := program(b, "lpm")
		p.push(b, program, info)
		for i := range byte(2) {
			p.write(b, p.entry(b, p4.Update_INSERT, "ipv4_lpm", lpm(24, 10, 0, i, 0), "forward", []byte{2, 0, 0, 0, 0, i}, []byte{i + 1}))
		}
	}
	server := exec.Command("nsenter", "-t", hosts[1], "-n", "iperf3", "-s", "-1")
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		server.Process.Kill() //nolint:errcheck // it has served its one client
		server.Wait()         //nolint:errcheck // as above
	})
	shell(b, "for i in $(seq 100); do nsenter -t %s -n ss -Hltn | grep -q 5201 && break; sleep 0.1; done", hosts[1])
	var result struct {
		End struct {
			Received struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(shell(b, "nsenter -t %s -n iperf3 -c 10.0.1.1 -t %s -J", hosts[0], seconds)), &result); err != nil {
		b.Fatal(err)
	}
	return result.End.Received.Rate / 1e9
}

// newStack moves a link's end into a network stack of its own, and returns the process that holds it.
func newStack(b testing.TB, i int, offload string) string {
	b.Helper()
	c := exec.Command("unshare", "-n", "sleep", "120")
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may be gone
		c.Wait()         //nolint:errcheck // it was killed
	})
	pid := fmt.Sprint(c.Process.Pid)
	here := shell(b, "readlink /proc/self/ns/net")
	for deadline := time.Now().Add(time.Minute); shell(b, "readlink /proc/%s/ns/net", pid) == here; {
		if time.Now().After(deadline) {
			b.Fatal("no network namespace after a minute")
		}
	}
	shell(b, "ip link set h%d netns %s", i, pid)
	for _, line := range []string{
		"ip link set lo up", fmt.Sprintf("ip link set h%d address 02:00:00:00:00:0%d", i, i),
		fmt.Sprintf("ip addr add 10.0.%d.1/16 dev h%d", i, i), fmt.Sprintf("ip link set h%d up", i),
		fmt.Sprintf("ip neigh add 10.0.%d.1 lladdr 02:00:00:00:00:0%d dev h%d", 1-i, 1-i, i),
		fmt.Sprintf("ethtool -K h%d tx %s tso %s gso %s gro %s", i, offload, offload, offload, offload),
	} {
		shell(b, "nsenter -t %s -n %s", pid, line)
	}
	return pid
}

func shell(b testing.TB, format string, args ...any) string {
	b.Helper()
	line := fmt.Sprintf(format, args...)
	out, err := exec.Command("sh", "-c", line).Output()
	if err != nil {
		b.Fatalf("%s: %v", line, err)
	}
	return strings.TrimSpace(string(out))
}
