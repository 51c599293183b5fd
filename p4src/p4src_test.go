package p4src

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArtefactsMatchSources fails when a P4 source or an artefact was changed
// without the other: build/SHA256SUMS is what `make p4` wrote of both.
func TestArtefactsMatchSources(t *testing.T) {
	f, err := os.Open("build/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("build/SHA256SUMS: bad line %q", lines.Text())
		}
		listed[name] = true
		data, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%v; run `make p4`", err)
			continue
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s differs from what the artefacts were built with; run `make p4` where p4c is installed", name)
		}
	}
	for _, pattern := range []string{"shared/*.p4", "v1model/*.p4", "build/*.json", "build/*.txtpb"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !listed[name] {
				t.Errorf("%s is not listed in build/SHA256SUMS; run `make p4`", name)
			}
		}
	}
}

func TestArtefactsParse(t *testing.T) {
	if !json.Valid(V1ModelJSON()) {
		t.Error("build/ethereal.json is not JSON")
	}
	names := map[string]bool{}
	for _, table := range V1ModelP4Info().GetTables() {
		names[table.GetPreamble().GetName()] = true
	}
	for _, want := range []string{"device", "label_carrier", "route_v4", "route_v6", "source_route", "ecmp", "ecn_profile"} {
		if !names[want] {
			t.Errorf("the P4Info has no table %s, only %v", want, names)
		}
	}
}
