//go:build linux

package tagger

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// scapy returns a Python that has scapy, or skips.
func scapy(t *testing.T) string {
	t.Helper()
	systemtest.Only(t)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		python := filepath.Join(dir, "python3")
		if exec.Command(python, "-c", "import scapy.contrib.roce").Run() == nil {
			return python
		}
	}
	t.Skip("no python3 with scapy: Debian has it in python3-scapy")
	return ""
}

// TestForeignSender labels what scapy sends, has tshark capture it at the other
// end, and scapy and tshark judge it.
func TestForeignSender(t *testing.T) {
	python := scapy(t)
	tshark := systemtest.Program(t, "tshark", "", "apt-get install tshark")
	const count = 240
	for _, carrier := range []labeller.Carrier{labeller.SourcePort, labeller.FlowLabel} {
		t.Run([]string{"source port", "flow label"}[carrier], func(t *testing.T) {
			w := newWire(t)
			tg := w.attach(Config{IPv6: carrier})
			defer tg.Close()
			// Labels for queue pairs 0x100 to 0x106; 0x107 keeps what it has.
			labels := map[labeller.QP]fabric.Label{}
			for n := range uint32(7) {
				for host := range 3 {
					for i, pattern := range []string{"10.0.0.%d", "fd00::%x"} {
						q := labeller.QP{Dst: netip.MustParseAddr(fmt.Sprintf(pattern, host+1)), Num: 0x100 + n}
						labels[q] = fabric.Label(n)<<8 | fabric.Label(host)<<1 | fabric.Label(i)
						w.must(tg.Set(labeller.Assignment{QP: q, Label: labels[q]}))
					}
				}
			}
			pcap := filepath.Join(t.TempDir(), "c.pcap")
			capture(t, tshark, pcap, count, func() {
				if out, err := exec.Command(python, "testdata/foreign.py", "send", "left", strconv.Itoa(count)).CombinedOutput(); err != nil {
					t.Fatalf("send: %v\n%s", err, out)
				}
			})
			out, err := exec.Command(python, "testdata/foreign.py", "judge", pcap).Output()
			if err != nil {
				t.Fatalf("judge: %v", err)
			}
			var labelled, others, sums int
			for line := range strings.Lines(string(out)) {
				v := verdict{}
				if _, err := fmt.Sscan(line, &v.version, &v.dst, &v.qpn, &v.port, &v.flowLabel, &v.length, &v.icrc, &v.checksum); err != nil {
					t.Fatalf("judge's line %q: %v", line, err)
				}
				if v.icrc != 1 || v.checksum == "0" {
					t.Fatalf("ICRC or UDP checksum wrong: %s", line)
				}
				if v.checksum == "1" {
					sums++
				}
				l, ok := labels[labeller.QP{Dst: netip.MustParseAddr(v.dst), Num: v.qpn}]
				switch {
				case !ok:
					others++
				case v.version == 6 && carrier == labeller.FlowLabel:
					labelled++
					if v.flowLabel != frame.FlowLabel(l) {
						t.Fatalf("want label %#x: %s", l, line)
					}
				default:
					labelled++
					if v.port != frame.SourcePort(l) {
						t.Fatalf("want label %#x: %s", l, line)
					}
				}
			}
			if labelled+others != count || others < count/10 || sums < count/4 {
				t.Errorf("%d labelled and %d others of %d, %d with a checksum", labelled, others, count, sums)
			}
			t.Logf("%d packets labelled, %d left alone, %d with a UDP checksum: ICRCs and checksums all right", labelled, others, sums)
			// A second judge, for what it knows: ports and labels; and that
			// nothing is malformed.
			bad, err := exec.Command(tshark, "-r", pcap, "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
				"-Y", "_ws.malformed or udp.checksum.status==0 or ip.checksum.status==0 or !infiniband").Output()
			if err != nil {
				t.Fatal(err)
			}
			if len(bytes.TrimSpace(bad)) > 0 {
				t.Errorf("tshark finds fault with:\n%s", bad)
			}
		})
	}
}

// verdict is what the judge says about a packet.
type verdict struct {
	version   int
	dst       string
	qpn       uint32
	port      uint16
	flowLabel uint32
	length    int
	icrc      int
	checksum  string
}

// capture has tshark write n packets of the foreign sender at the right end to
// a file, and runs f once it listens.
func capture(t *testing.T, tshark, file string, n int, f func()) {
	t.Helper()
	cmd := exec.Command(tshark, "-i", "right", "-F", "pcap", "-w", file, "-c", strconv.Itoa(n), "-a", "duration:60", "-f", "ether src 02:00:00:00:00:01")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(90*time.Second, func() { cmd.Process.Kill() })
	defer kill.Stop()
	lines := bufio.NewScanner(stderr)
	listening := false
	for !listening && lines.Scan() {
		listening = strings.Contains(lines.Text(), "Capture started") || strings.Contains(lines.Text(), "Capturing on")
	}
	if !listening {
		cmd.Wait()
		t.Skip("tshark cannot capture here")
	}
	f()
	for lines.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("tshark: %v", err)
	}
}
