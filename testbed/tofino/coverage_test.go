package tofino

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// coverageVariable asks for what of the chip's program the tests on the model have executed. The model's log says it.
const coverageVariable = "ETHEREAL_CHIP_COVERAGE"

// coverage counts what the model has executed of a program.
type coverage struct {
	parts map[string]map[string]int // by kind and name: statements; those that were not executed
	all   map[string]int            // statements by kind
	table string                    // that the log named last
}

// Kinds of a program's parts.
const (
	parserStates = "parser states"
	conditions   = "outcomes of conditions"
	tableHits    = "hits of tables with keys"
	tableMisses  = "misses of tables with keys"
	actions      = "actions"
	primitives   = "statements of actions"
)

// newCoverage reads a program's parts from context.json of the compiler.
func newCoverage(pipeline string) (*coverage, error) {
	text, err := os.ReadFile(filepath.Join(pipeline, "context.json"))
	if err != nil {
		return nil, err
	}
	var program struct {
		Parser map[string][]struct {
			Name string `json:"parser_name"`
		}
		Tables []struct {
			Name, Direction, Condition string
			Type                       string            `json:"table_type"`
			Key                        []json.RawMessage `json:"match_key_fields"`
			Actions                    []struct {
				Name       string
				Primitives []json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &program); err != nil {
		return nil, err
	}
	c := &coverage{parts: map[string]map[string]int{}, all: map[string]int{}}
	add := func(kind, name string, statements int) {
		if c.parts[kind] == nil {
			c.parts[kind] = map[string]int{}
		}
		if _, known := c.parts[kind][name]; !known {
			c.parts[kind][name] = statements
			c.all[kind] += statements
		}
	}
	for direction, states := range program.Parser {
		for _, s := range states {
			add(parserStates, direction+" "+s.Name, 1)
		}
	}
	for _, t := range program.Tables {
		switch t.Type {
		case "condition":
			if strings.HasPrefix(t.Condition, "true(") {
				continue
			}
			for _, outcome := range []string{"", "not "} {
				add(conditions, t.Direction+" "+t.Condition+" "+outcome+"matched", 1)
			}
		case "match":
			if len(t.Key) > 0 {
				add(tableHits, t.Name, 1)
				add(tableMisses, t.Name, 1)
			}
			for _, a := range t.Actions {
				add(actions, t.Name+": "+a.Name, 1)
				add(primitives, t.Name+": "+a.Name, len(a.Primitives))
			}
		}
	}
	return c, nil
}

// Lines of the model's log of the program.
var (
	stateLine     = regexp.MustCompile(`:(Ingress|Egress) Parser state '(.+)'$`)
	conditionLine = regexp.MustCompile(`:(Ingress|Egress) : Gateway table condition \((.+)\) ((?:not )?matched)\.$`)
	tableLine     = regexp.MustCompile(`:(?:Ingress|Egress) : (?:Associated table|Table) (\S+) is (hit|miss|executed|inhibited by .*)$`)
	actionLine    = regexp.MustCompile(`:Execute (?:Default )?Action: (\S+)$`)
)

// take notes what the log says.
func (c *coverage) take(r Result) {
	for _, line := range r.Text {
		if f := stateLine.FindStringSubmatch(line); f != nil {
			delete(c.parts[parserStates], strings.ToLower(f[1])+" "+f[2])
		} else if f := conditionLine.FindStringSubmatch(line); f != nil {
			delete(c.parts[conditions], strings.ToLower(f[1])+" "+f[2]+" "+f[3])
		} else if f := tableLine.FindStringSubmatch(line); f != nil {
			c.table = f[1]
			delete(c.parts[map[string]string{"hit": tableHits, "miss": tableMisses}[f[2]]], f[1]) // of no kind: executed, inhibited
		} else if f := actionLine.FindStringSubmatch(line); f != nil {
			delete(c.parts[actions], c.table+": "+f[1])
			delete(c.parts[primitives], c.table+": "+f[1])
		}
	}
}

// print prints how much was executed, and what was not.
func (c *coverage) print(w io.Writer) {
	for _, kind := range []string{primitives, actions, tableHits, tableMisses, conditions, parserStates} {
		left := 0
		for _, n := range c.parts[kind] {
			left += n
		}
		fmt.Fprintf(w, "%d of %d %s\n", c.all[kind]-left, c.all[kind], kind)
		if kind != primitives {
			for _, name := range slices.Sorted(maps.Keys(c.parts[kind])) {
				fmt.Fprintln(w, "  not", name)
			}
		}
	}
}
