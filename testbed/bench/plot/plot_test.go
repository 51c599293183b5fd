package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// A picture is XML, with a circle for every point and a path for every curve, all of
// them within it.
func TestSVG(t *testing.T) {
	var a, b Series
	a.Name, b.Name = "ours", "theirs"
	for _, x := range []int{1, 10, 1000} {
		a.Add(x, float64(x)*2.5e6)
		b.Add(x, 7e5)
	}
	svg := SVG([]Panel{
		{Title: "time", X: "GPUs", Log: true, Y: Nanoseconds, Series: []Series{a, b}},
		{Title: "memory", X: "GPUs", Y: Megabytes, Series: []Series{a}},
	})
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
			for _, attr := range e.Attr {
				if strings.Contains(attr.Value, "NaN") || strings.Contains(attr.Value, "Inf") || strings.HasPrefix(attr.Name.Local, "c") && strings.HasPrefix(attr.Value, "-") {
					t.Errorf("%s %s=%q", e.Name.Local, attr.Name.Local, attr.Value)
				}
			}
		}
	}
	if count["circle"] != 9 || count["g"] != 2 {
		t.Errorf("%v", count)
	}
	for _, label := range []string{">100 us<", ">1 s<", ">10 s<"} {
		if !strings.Contains(string(svg), label) {
			t.Errorf("no label %s", label)
		}
	}
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Nanoseconds(10): "10 ns", Nanoseconds(1e4): "10 us", Nanoseconds(1e8): "100 ms", Nanoseconds(1e11): "100 s",
		Megabytes(100): "100 MB", Megabytes(1e4): "10 GB",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
