//go:build linux

package process_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/internal/etherealtest"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// BenchmarkRoutes writes 100,000 /32 routes over P4Runtime into a switch with the interpreter, with the kernel's data
// path and, where the environment's BMV2 names it, into BMv2: all in turn, five times, 1,000 routes in a request and
// one. It reports the medians per second, and per second of the switch's CPU time, which has the kernel's part in it.
func BenchmarkRoutes(b *testing.B) {
	json, info := readProgram(b, "../p4runtime/testdata/routes.json", "../p4runtime/testdata/routes.p4info.txtpb")
	binary := etherealtest.Binary(b)
	switches := []struct {
		name    string
		command []string
	}{
		{"interpreter", []string{binary, "switch", "--datapath", "interpreter"}}, {"kernel", []string{binary, "switch", "--datapath", "kernel"}},
		{"bmv2", []string{os.Getenv("BMV2")}},
	}
	for _, c := range []struct{ batch, routes int }{{1000, 100_000}, {1, 10_000}} {
		b.Run(fmt.Sprintf("batch=%d", c.batch), func(b *testing.B) {
			for range b.N {
				wall, cpu := map[string][]float64{}, map[string][]float64{}
				for range 5 {
					for _, s := range switches {
						if s.command[0] == "" {
							continue
						}
						w, u := writeRoutes(b, s.command, json, info, c.batch, c.routes)
						wall[s.name], cpu[s.name] = append(wall[s.name], w), append(cpu[s.name], u)
					}
				}
				for name := range wall {
					b.Logf("%s: %.0f routes/s", name, wall[name])
					b.ReportMetric(median(wall[name]), name+"-routes/s")
					b.ReportMetric(median(cpu[name]), name+"-routes/cpu-s")
				}
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// writeRoutes returns routes per second, and per second of the switch's CPU time.
func writeRoutes(b *testing.B, command []string, json []byte, info *p4config.P4Info, batch, routes int) (wall, cpu float64) {
	ns := porttest.Enter(b)
	ns.Veth(b, "h1", "s1", 1500)
	p := startSwitch(b, ns, command, "s1")
	defer p.end(b)
	p.push(b, json, info)
	var requests [][]*p4.Update
	for i := range routes / batch {
		var updates []*p4.Update
		for k := range batch {
			dst := binary.BigEndian.AppendUint32(nil, uint32(10<<24+i*batch+k))
			updates = append(updates, p.entry(b, p4.Update_INSERT, "In.route", lpm(32, dst...), "forward", []byte{2}))
		}
		requests = append(requests, updates)
	}
	before, start := cpuEver(b, p.cmd.Process.Pid), time.Now()
	for _, u := range requests {
		p.write(b, u...)
	}
	took, used := time.Since(start), cpuEver(b, p.cmd.Process.Pid)-before
	return float64(routes) / took.Seconds(), float64(routes) / used.Seconds()
}

// cpuEver is what a process has used, with threads that have ended: BMv2 answers each request in another. It is in
// ticks of 10 ms.
func cpuEver(t testing.TB, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, f := range strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}
