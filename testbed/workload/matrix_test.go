package workload

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMatrixForms reads one matrix as people and programs write it: each time the same messages.
func TestMatrixForms(t *testing.T) {
	want, err := readMatrix("m.csv", []byte("0,1500,100000\n2,0,3\n4,5,0\n"), 1)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"numbers":            "0.0,1.5e3,1e5\n2.0,0,3\n4,4.6,0\n",
		"byte-order mark":    "\ufeff0,1500,1E5\r\n2,0,3\r\n4,5,0\r\n",
		"header":             "rank0,rank1,rank2\n0,1500,100000\n2,0,3\n4,5,0\n",
		"mark and header":    "\ufeff\"rank 0\",\"rank 1\",\"rank 2\"\r\n0,1500,100000\r\n2,0,3\r\n4,5,0\r\n",
		"pandas":             ",0,1,2\n0,0.0,1500.0,100000.0\n1,2.0,0.0,3.0\n2,4.0,5.0,0.0\n",
		"pandas, no index":   "0,1,2\n0.0,1500.0,100000.0\n2.0,0.0,3.0\n4.0,5.0,0.0\n",
		"pandas, no header":  "0,0.0,1500.0,100000.0\n1,2.0,0.0,3.0\n2,4.0,5.0,0.0\n",
		"pandas, names":      "src,a,b,c\na,0,1500,100000\nb,2,0,3\nc,4,5,0\n",
		"counted from 1":     ",1,2,3\n1,0,1500,100000\n2,2,0,3\n3,4,5,0\n",
		"comment and header": "# bytes\na,b,c\n0,1500,100000\n2,0,3\n4,5,0\n",
	} {
		got, err := readMatrix("m.csv", []byte(text), 1)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if d := cmp.Diff(want.Ranks, got.Ranks); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
		if len(got.Notes()) != 0 {
			t.Errorf("%s: %q", what, got.Notes())
		}
	}
	for text, want := range map[string]string{
		"x,1,2\n3,0,4\n5,6,0\n":      `m.csv:1:1: "x" is no number`, // no name: the other columns have none
		"0,1x\n1,0\n":                `m.csv:1:3: "1x" is no number`,
		"0,nan\n1,0\n":               `"nan" is no number`,
		"0,inf\n1,0\n":               `"inf" is no number`,
		"0,-1.5\n1,0\n":              `"-1.5" is no number`,
		"0,0x10\n1,0\n":              `"0x10" is no number`,
		"0,1e300\n1,0\n":             `"1e300" is no number`,
		"a,b\n0,1\n":                 `"a" is no number`,
		"a,b,c\n0,1,2\n1,0,2\n2,1\n": "m.csv:4:1: 2 numbers; the file has 3 lines, so write 3",
		"a,b\n0,1\n1,y\n":            `m.csv:3:3: "y" is no number`,
	} {
		if _, err := readMatrix("m.csv", []byte(text), 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	p, err := readMatrix("m.csv", []byte("9,0.5\n0.0001,1\n"), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(p.Notes(), "; "); notes != "m.csv: the diagonal is not sent: 2 ranks with 10KB for themselves" {
		t.Errorf("notes %q", notes)
	}
	if p.Ranks[0][0].Bytes != 500 || p.Ranks[1][0].Bytes != 1 {
		t.Errorf("%+v", p.Ranks)
	}
}
