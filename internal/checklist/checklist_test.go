package checklist

import (
	"strings"
	"testing"
)

func TestPrint(t *testing.T) {
	var l List
	l.Add(Green, "tor1", "p4runtime", "answers", "nothing to do")
	l.Add(Red, "tor0", "ports", "Ethernet3 is down", "plug the cable in")
	l.Add(Unseen, "tor0", "mtu", "the switch does not tell", "look at its chassis config")
	lines := l.Lines([]string{"tor0", "tor1"})
	if lines[0].Check != "ports" || lines[2].Subject != "tor1" || lines[2].Remedy != "" || Worst(lines) != Red {
		t.Errorf("%+v", lines)
	}
	for all, want := range map[bool]string{
		false: "red     tor0  ports  Ethernet3 is down\n                     -> plug the cable in\nunseen  tor0  mtu    the switch does not tell\n                     -> look at its chassis config\n1 green, 1 unseen, 1 red\n",
		true:  "green   tor1  p4runtime  answers\n1 green, 1 unseen, 1 red\n",
	} {
		var b strings.Builder
		if err := Print(&b, lines, all); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("all %v:\n%s", all, b.String())
		}
	}
}

// TestPrintGroups: the worst lines come first, and lines that differ in their subject only are one.
func TestPrintGroups(t *testing.T) {
	lines := []Line{{Green, "tor0", "ports", "up", ""}}
	for _, s := range []string{"tor0", "tor1", "tor2", "tor3", "tor4"} {
		lines = append(lines, Line{Unseen, s, "mtu", "not asked", "look"})
	}
	lines = append(lines, Line{Red, "tor1", "p4runtime", "refused", "start it"})
	var b strings.Builder
	if err := Print(&b, lines, false); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	if red, unseen := strings.Index(out, "red"), strings.Index(out, "unseen"); red < 0 || unseen < red ||
		strings.Count(out, "not asked") != 1 || !strings.Contains(out, "tor0 tor1 tor2 and 2 more") || !strings.Contains(out, "1 green, 5 unseen, 1 red") {
		t.Error(out)
	}
}
