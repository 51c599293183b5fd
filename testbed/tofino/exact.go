package tofino

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// entries are the entries of an exact table in the chip. The harness finds a free place for a new one and tells which;
// what is there then is overwritten by the same key's next entry.
type entries struct {
	table   string
	miss    string // the action that does what a miss does
	actions map[string]string
	places  map[string]int
}

// placedPattern is the harness's message about the place of a new entry.
var placedPattern = regexp.MustCompile(`find_unused_way = ([0-9]+) `)

// write makes the table contain the actions in want, by key.
func (t *entries) write(m *Model, want map[string]string) error {
	if t.actions == nil {
		t.actions, t.places = map[string]string{}, map[string]int{}
	}
	all := want
	for key := range t.actions {
		if _, ok := want[key]; !ok {
			if len(all) == len(want) {
				all = map[string]string{}
				maps.Copy(all, want)
			}
			all[key] = t.miss
		}
	}
	keys := make([]string, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		action := all[key]
		if t.actions[key] == action {
			continue
		}
		place, known := t.places[key]
		command := fmt.Sprintf("add %s %s %s", t.table, key, action)
		if known {
			command = fmt.Sprintf("add %s %d %s %s", t.table, place, key, action)
		}
		r, err := m.Do(command)
		if err != nil {
			return err
		}
		for _, line := range r.Text {
			if found := placedPattern.FindStringSubmatch(line); found != nil && !known {
				if place, err = strconv.Atoi(found[1]); err != nil {
					return err
				}
				known = true
			}
		}
		if !known {
			return fmt.Errorf("tofino: model: it did not tell the place of: %s", command)
		}
		t.places[key], t.actions[key] = place, action
	}
	return nil
}
