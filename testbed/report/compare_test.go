package report

import (
	"bytes"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	before, after := made(demoFabric), made(demoFabric)
	for i := range before {
		before[i].EventsSHA256, after[i].EventsSHA256 = "a", "a"
	}
	slower := 2 * *after[0].CCT
	after[0].CCT, after[0].EventsSHA256 = &slower, "b"
	after[1].CCT, after[1].EventsSHA256 = nil, "b"
	after = after[:len(after)-1]
	var b bytes.Buffer
	compared, err := Compare(&b, before, after, [2]string{"old.jsonl", "new.jsonl"})
	if err != nil || !compared {
		t.Fatal(compared, err)
	}
	lines := strings.Split(b.String(), "\n")
	if want := "15 runs in both files; 13 the same to every event, 2 not; 1 only in old.jsonl, 0 only in new.jsonl"; lines[0] != want {
		t.Errorf("%q, want %q", lines[0], want)
	}
	if !strings.Contains(lines[2], dnfText) || !strings.Contains(lines[3], "2.000") {
		t.Errorf("not the largest change first:\n%s", b.String())
	}
	other := made(spineFabric)
	if compared, err := Compare(&b, before, other, [2]string{}); compared || err != nil {
		t.Errorf("results on another fabric were compared: %v", err)
	}
}
