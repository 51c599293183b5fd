package main

import (
	"strings"
	"testing"
)

const twoStages = `{"resources": {"mau": {"nStages": 12, "mau_stages": [
 {"stage_number": 0, "rams": {"nRows": 8, "nColumns": 10, "srams": [
    {"row": 0, "column": 2, "usages": [{"used_by": "route", "used_for": "ternary_indirection_ram"}]}]},
  "map_rams": {"nRows": 8, "nUnits": 6, "maprams": []},
  "tcams": {"nRows": 12, "nColumns": 2, "tcams": [
    {"row": 0, "column": 0, "usages": [{"used_by": "route", "used_for": "ternary_match"}]},
    {"row": 1, "column": 0, "usages": [{"used_by": "route", "used_for": "ternary_match"}]}]},
  "gateways": {"nRows": 8, "nUnits": 2, "gateways": []},
  "meter_alus": {"nAlus": 4, "meters": []}, "statistic_alus": {"nAlus": 4, "stats": []},
  "logical_tables": {"size": 16, "ids": [{"id": 0, "table_name": "route"}]}},
 {"stage_number": 1, "rams": {"nRows": 8, "nColumns": 10, "srams": [
    {"row": 0, "column": 2, "usages": [{"used_by": "route", "used_for": "action_ram"}]}]},
  "map_rams": {"nRows": 8, "nUnits": 6}, "tcams": {"nRows": 12, "nColumns": 2}, "gateways": {"nRows": 8, "nUnits": 2},
  "meter_alus": {"nAlus": 4}, "statistic_alus": {"nAlus": 4}, "logical_tables": {"size": 16, "ids": []}}]}}}`

const twoContainers = `{"resources": [
  {"group_type": "mau", "bit_width": 8, "addresses": [64, 65, 66, 67]},
  {"group_type": "mau", "bit_width": 8, "addresses": [288, 289]},
  {"group_type": "mau", "bit_width": 32, "addresses": [256]},
  {"group_type": "deparser", "bit_width": 8, "addresses": [64, 65, 66, 67]}],
 "containers": [
  {"bit_width": 8, "container_type": "normal", "slices": [{"slice_info": {"lsb": 0, "msb": 3}}, {"slice_info": {"lsb": 2, "msb": 4}}]},
  {"bit_width": 32, "container_type": "tagalong", "slices": [{"slice_info": {"lsb": 0, "msb": 31}}]}]}`

func TestReport(t *testing.T) {
	text, err := report([]byte(twoStages), []byte(twoContainers))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	got := strings.Join(lines, "\n")
	for _, want := range []string{
		"0 1 0 1 0 2 0 0\n", "1 of 12 1 of 192 0 of 192 2 of 960 0 of 576 2 of 288 0 of 48 0 of 48\n",
		"2 2 0,1 route\n", "normal, 8 bits 1 6 5\n", "tagalong, 32 bits 1 1 32",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	twice := strings.NewReplacer("ternary_indirection_ram", "stateful_ram", "action_ram", "stateful_ram").Replace(twoStages)
	if _, err := report([]byte(twice), []byte(twoContainers)); err == nil || !strings.Contains(err.Error(), "route is in stages 0 and 1") {
		t.Errorf("a register in two stages: %v", err)
	}
	if _, err := report([]byte(`{}`), []byte(twoContainers)); err == nil {
		t.Error("a program that was not placed")
	}
}
