//go:build linux

package owners

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// FuzzRNICAgent: what the library in C understands of an agent's line is what this package means by it. The library may
// refuse what no agent writes; it refuses nothing that one does.
func FuzzRNICAgent(f *testing.F) {
	systemtest.Only(f)
	program := filepath.Join(f.TempDir(), "obey")
	args := []string{
		"-std=gnu11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover",
		"-o", program, rnicDir + "testdata/obey.c", "-lpthread",
	}
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		f.Skipf("no C compiler that builds it with sanitizers and infiniband/verbs.h: %v %s", err, out)
	}
	c := exec.Command(program)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		in.Close() //nolint:errcheck // it ends with it
		if err := c.Wait(); err != nil {
			f.Errorf("the program: %v", err)
		}
	})
	answers := bufio.NewReaderSize(out, maxLine)
	understood := func(t *testing.T, line []byte) string {
		t.Helper()
		if _, err := in.Write(append(bytes.Clone(line), '\n')); err != nil {
			t.Fatal(err)
		}
		got, err := answers.ReadString('\n')
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if strings.HasSuffix(got, "bad\n") { // after what it would have set until there
			return "bad"
		}
		return strings.TrimSpace(got)
	}
	for _, line := range []string{
		`{"seq":7,"set":[{"dst":"10.3.1.3","qp":291,"label":6}]}`,
		`{"seq":18446744073709551615,"set":[{"dst":"fd00:e7::3","qp":0,"label":0}]}`,
		`{"seq":1,"set":[{"dst":"10.0.0.2","qp":1,"label":2},{"dst":"10.0.0.2","qp":16777215,"label":16383}]}`,
		`{ "set" : [{"label": 1,"qp": 2,"dst": "10.0.0.2"}], "seq": 3}`,
		`{"seq":01,"set":[{"dst":"10.3.1.3","qp":1,"label":1}]}`,
		`{"seq":1,"set":[{"dst":"10.3.1.3","qp":1,"label":1}],"set":[{"dst":"10.3.1.3","qp":2,"label":1}]}`,
		`{"seq":1,"set":[]}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.ContainsAny(line, "\n\x00") || len(line) > maxLine/4 {
			return // it is split there, or refused before
		}
		got := understood(t, line)
		m, err := parse(line)
		if got != "bad" {
			sets, valid := readObeyed(t, got)
			if valid && (err != nil || meaning(m) != got) {
				t.Errorf("%q: the library understands %q (%v), it means %+v, %v", line, got, sets, m, err)
			}
		}
		if err != nil || m.Seq == 0 || len(m.Set) == 0 {
			return
		}
		m = &message{Seq: m.Seq, Set: m.Set}
		for i := range m.Set {
			if m.Set[i].Dst = m.Set[i].Dst.Unmap().WithZone(""); len(m.Set) > 100 {
				return
			}
		}
		var b bytes.Buffer
		if err := m.write(&b); err != nil {
			t.Fatal(err)
		}
		if got := understood(t, bytes.TrimSpace(b.Bytes())); got != meaning(m) {
			t.Errorf("%q: the library understands %q, it means %q", b.Bytes(), got, meaning(m))
		}
	})
}

// meaning is a request as testdata/obey.c answers it.
func meaning(m *message) string {
	var b strings.Builder
	for _, p := range m.Set {
		fmt.Fprintf(&b, "%v %d %d,", p.Dst, p.Num, *p.Label)
	}
	fmt.Fprintf(&b, `{"seq":%d}`, m.Seq)
	return b.String()
}

// readObeyed reads what testdata/obey.c would set, and whether an agent could mean that.
func readObeyed(t *testing.T, text string) (as []labeller.Assignment, valid bool) {
	t.Helper()
	words := strings.Split(text, ",")
	for _, word := range words[:len(words)-1] {
		var dst string
		var a labeller.Assignment
		var label uint16
		if _, err := fmt.Sscan(word, &dst, &a.QP.Num, &label); err != nil {
			return nil, false // a name with spaces
		}
		var err error
		if a.QP.Dst, err = netip.ParseAddr(dst); err != nil || a.QP.Dst.String() != dst {
			return nil, false
		}
		if a.Label = fabric.Label(label); a.Validate() != nil {
			return nil, false
		}
		as = append(as, a)
	}
	return as, true
}
