package differential

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/bench/plot"
)

// BenchmarkReactionPicture draws REACTION.svg from REACTION.json, which BenchmarkReaction of p4switch/process has
// written. REACTION names both without their endings.
func BenchmarkReactionPicture(b *testing.B) {
	name := os.Getenv("REACTION")
	if name == "" {
		b.Skip("REACTION names no file")
	}
	text, err := os.ReadFile(name + ".json")
	if err != nil {
		b.Fatal(err)
	}
	var all struct {
		Times map[string][]float64 `json:"times_us"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		b.Fatal(err)
	}
	p := plot.Panel{Title: "from the last packet by the dead port to the first by another", X: "percent of the cuts", Y: plot.Nanoseconds}
	for _, who := range []string{"kernel, switch", "interpreter, switch", "kernel, controller"} {
		times := slices.Sorted(slices.Values(all.Times[who]))
		s := plot.Series{Name: who}
		for _, share := range []int{5, 25, 50, 75, 90, 95, 99} {
			if len(times) > 0 {
				s.Add(share, 1000*times[(len(times)-1)*share/100])
			}
		}
		p.Series = append(p.Series, s)
	}
	if err := os.WriteFile(name+".svg", plot.SVG([]plot.Panel{p}), 0o644); err != nil {
		b.Fatal(err)
	}
}
