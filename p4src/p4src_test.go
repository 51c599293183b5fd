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
// without the other: the SHA256SUMS are what `make p4` wrote of both.
func TestArtefactsMatchSources(t *testing.T) {
	for _, tt := range []struct {
		sums, make string
		patterns   []string
	}{
		{"build/SHA256SUMS", "make p4", []string{"shared/*.p4", "v1model/*.p4", "build/*.json", "build/*.txtpb"}},
		{"build/tna/SHA256SUMS", "make p4-chips", []string{"shared/*.p4", "tna/*.p4", "build/tna/*.json", "build/tna/*.txt*"}},
	} {
		t.Run(tt.sums, func(t *testing.T) { matchSources(t, tt.sums, tt.make, tt.patterns) })
	}
}

func matchSources(t *testing.T, sums, rebuild string, patterns []string) {
	f, err := os.Open(sums)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("%s: bad line %q", sums, lines.Text())
		}
		listed[name] = true
		data, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%v; run `%s`", err, rebuild)
			continue
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("%s differs from what the artefacts were built with; run `%s` where p4c is installed", name, rebuild)
		}
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			t.Errorf("there is no %s", pattern)
		}
		for _, name := range names {
			if !listed[name] {
				t.Errorf("%s is not listed in %s; run `%s`", name, sums, rebuild)
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
