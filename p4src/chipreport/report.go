package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// usage is one unit of a resource, with its users and purpose.
type usage struct {
	Usages []struct {
		By  string `json:"used_by"`
		For string `json:"used_for"`
	} `json:"usages"`
}

// stage is the reported part of a match-action stage in resources.json.
type stage struct {
	Number int `json:"stage_number"`
	Rams   struct {
		Rows    int     `json:"nRows"`
		Columns int     `json:"nColumns"`
		Used    []usage `json:"srams"`
	} `json:"rams"`
	MapRams struct {
		Rows  int     `json:"nRows"`
		Units int     `json:"nUnits"`
		Used  []usage `json:"maprams"`
	} `json:"map_rams"`
	Tcams struct {
		Rows    int     `json:"nRows"`
		Columns int     `json:"nColumns"`
		Used    []usage `json:"tcams"`
	} `json:"tcams"`
	Gateways struct {
		Rows  int     `json:"nRows"`
		Units int     `json:"nUnits"`
		Used  []usage `json:"gateways"`
	} `json:"gateways"`
	Meters struct {
		ALUs int     `json:"nAlus"`
		Used []usage `json:"meters"`
	} `json:"meter_alus"`
	Statistics struct {
		ALUs int     `json:"nAlus"`
		Used []usage `json:"stats"`
	} `json:"statistic_alus"`
	Logical struct {
		Size int `json:"size"`
		IDs  []struct {
			Name string `json:"table_name"`
		} `json:"ids"`
	} `json:"logical_tables"`
}

// resources is the reported part of resources.json.
type resources struct {
	Resources struct {
		MAU struct {
			Stages int     `json:"nStages"`
			Used   []stage `json:"mau_stages"`
		} `json:"mau"`
	} `json:"resources"`
}

// containers is the reported part of phv.json.
type containers struct {
	Groups []struct {
		Type      string `json:"group_type"`
		Bits      int    `json:"bit_width"`
		Addresses []int  `json:"addresses"`
	} `json:"resources"`
	Used []struct {
		Bits   int    `json:"bit_width"`
		Type   string `json:"container_type"`
		Slices []struct {
			At struct {
				LSB int `json:"lsb"`
				MSB int `json:"msb"`
			} `json:"slice_info"`
		} `json:"slices"`
	} `json:"containers"`
}

// oneMemory returns an error if a register has memory in several stages: an action in one stage does not see then what
// an action in another wrote.
func oneMemory(r *resources) error {
	at := map[string]int{}
	for _, s := range r.Resources.MAU.Used {
		for _, ram := range s.Rams.Used {
			for _, u := range ram.Usages {
				if first, ok := at[u.By]; u.For == "stateful_ram" && ok && first != s.Number {
					return fmt.Errorf("register %s is in stages %d and %d, as two registers: let one table access it",
						u.By, first, s.Number)
				} else if u.For == "stateful_ram" {
					at[u.By] = s.Number
				}
			}
		}
	}
	return nil
}

// report reduces the two files to tables for people.
func report(resourcesJSON, phvJSON []byte) (string, error) {
	var r resources
	if err := json.Unmarshal(resourcesJSON, &r); err != nil {
		return "", fmt.Errorf("resources: %w", err)
	}
	var phv containers
	if err := json.Unmarshal(phvJSON, &phv); err != nil {
		return "", fmt.Errorf("phv: %w", err)
	}
	if len(r.Resources.MAU.Used) == 0 || len(phv.Used) == 0 {
		return "", fmt.Errorf("no stage or no container is used: the program was not placed")
	}
	if err := oneMemory(&r); err != nil {
		return "", err
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	stages(w, &r)
	fmt.Fprintln(w)
	tables(w, &r)
	fmt.Fprintln(w)
	phv.write(w)
	w.Flush() //nolint:errcheck // to a strings.Builder
	return b.String(), nil
}

func stages(w *tabwriter.Writer, r *resources) {
	fmt.Fprintln(w, "stage\ttables\tgateways\tSRAM\tmap RAM\tTCAM\tstateful ALUs\tcounter ALUs\t")
	var sum, room [7]int // stages are alike; those without use are left out of the file
	busy := 0
	for _, s := range r.Resources.MAU.Used {
		used := [7]int{len(s.Logical.IDs), len(s.Gateways.Used), len(s.Rams.Used), len(s.MapRams.Used), len(s.Tcams.Used), len(s.Meters.Used), len(s.Statistics.Used)}
		has := [7]int{
			s.Logical.Size, s.Gateways.Rows * s.Gateways.Units, s.Rams.Rows * s.Rams.Columns, s.MapRams.Rows * s.MapRams.Units,
			s.Tcams.Rows * s.Tcams.Columns, s.Meters.ALUs, s.Statistics.ALUs,
		}
		fmt.Fprintf(w, "%d\t", s.Number)
		for i := range used {
			fmt.Fprintf(w, "%d\t", used[i])
			sum[i] += used[i]
			room[i] = has[i] * r.Resources.MAU.Stages
		}
		fmt.Fprintln(w)
		if used[0] > 0 {
			busy++
		}
	}
	fmt.Fprintf(w, "%d of %d\t", busy, r.Resources.MAU.Stages)
	for i := range sum {
		fmt.Fprintf(w, "%d of %d\t", sum[i], room[i])
	}
	fmt.Fprintln(w)
}

// tables lists the tables, registers and counters that use memory.
func tables(w *tabwriter.Writer, r *resources) {
	type memory struct {
		stages     map[int]bool
		sram, tcam int
	}
	all := map[string]*memory{}
	count := func(stage int, used []usage, of func(*memory) *int) {
		for _, u := range used {
			for _, x := range u.Usages {
				m := all[x.By]
				if m == nil {
					m = &memory{stages: map[int]bool{}}
					all[x.By] = m
				}
				m.stages[stage] = true
				*of(m)++
			}
		}
	}
	for _, s := range r.Resources.MAU.Used {
		count(s.Number, s.Rams.Used, func(m *memory) *int { return &m.sram })
		count(s.Number, s.Tcams.Used, func(m *memory) *int { return &m.tcam })
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		first := func(n string) int { return slices.Min(slices.Collect(maps.Keys(all[n].stages))) }
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(a, b))
	})
	fmt.Fprintln(w, "SRAM\tTCAM\tstages\t  memory of")
	for _, n := range names {
		m := all[n]
		var at []string
		for _, s := range slices.Sorted(maps.Keys(m.stages)) {
			at = append(at, fmt.Sprint(s))
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t  %s\n", m.sram, m.tcam, strings.Join(at, ","), n)
	}
}

// write lists the packet header vector's containers: how many of each kind are used,
// and how many there are of that width.
func (c *containers) write(w *tabwriter.Writer) {
	room := map[int]int{} // by width
	for _, g := range c.Groups {
		if g.Type != "deparser" { // the same containers once more
			room[g.Bits] += len(g.Addresses)
		}
	}
	type kind struct {
		name string
		bits int
	}
	used, bits := map[kind]int{}, map[kind]int{}
	for _, x := range c.Used {
		k := kind{x.Type, x.Bits}
		used[k]++
		var mask uint64
		for _, s := range x.Slices {
			mask |= (1<<(s.At.MSB+1) - 1) &^ (1<<s.At.LSB - 1)
		}
		for ; mask != 0; mask &= mask - 1 {
			bits[k]++
		}
	}
	fmt.Fprintln(w, "PHV\tused\tof that width\tbits\t")
	kinds := slices.SortedFunc(maps.Keys(used), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.bits, b.bits))
	})
	for _, k := range kinds {
		fmt.Fprintf(w, "%s, %d bits\t%d\t%d\t%d\t\n", k.name, k.bits, used[k], room[k.bits], bits[k])
	}
}
