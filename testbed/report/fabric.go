package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// fabricName describes a result's fabric in a few words.
func (r *Result) fabricName() string {
	f, err := fabric.New(r.Fabric)
	if err != nil {
		return r.Fabric.Kind
	}
	return fmt.Sprintf("%s of %d hosts", f.Spec().Kind, f.Hosts())
}

// byFabric returns results with the fabric as a variant, if one scenario's results have several fabrics, as a
// sweep's parts do, and do not name them. Otherwise results of different fabrics would be taken for seeds of one.
func byFabric(rs []*Result) []*Result {
	type key struct{ scenario, fabric string }
	keyOf := func(r *Result) key {
		b, err := json.Marshal(r.Fabric)
		if err != nil {
			return key{r.Scenario, ""}
		}
		return key{r.Scenario, string(b)}
	}
	names := map[key]string{}
	taken := map[key]bool{} // by scenario and name
	fabrics := map[string]int{}
	for _, r := range rs {
		k := keyOf(r)
		if _, ok := names[k]; ok {
			continue
		}
		name := r.fabricName()
		for i := 2; taken[key{r.Scenario, name}]; i++ {
			name = fmt.Sprintf("%s (%d)", r.fabricName(), i)
		}
		names[k], taken[key{r.Scenario, name}] = name, true
		fabrics[r.Scenario]++
	}
	out := make([]*Result, len(rs))
	for i, r := range rs {
		out[i] = r
		if fabrics[r.Scenario] < 2 || r.variesFabric() {
			continue
		}
		c := *r
		c.Variant = maps.Clone(r.Variant)
		if c.Variant == nil {
			c.Variant = map[string]string{}
		}
		c.Variant["fabric"] = names[keyOf(r)]
		out[i] = &c
	}
	return out
}

func (r *Result) variesFabric() bool {
	for k := range r.Variant {
		if k == "fabric" || strings.HasPrefix(k, "fabric.") {
			return true
		}
	}
	return false
}
