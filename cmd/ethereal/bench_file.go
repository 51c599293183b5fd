package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// kept is what a results file has already.
type kept struct {
	versions map[string]string // hash of the run: version of the program
	size     int64             // up to the end of the last whole line
	damaged  error             // the first line that is no result; nil: none
}

// readBench reads what a file of results has. A file that is not there has
// nothing; a last line that was not written to its end counts as not there.
func readBench(path string) (kept, error) {
	k := kept{versions: map[string]string{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("--out: %w", err)
	}
	k.size = int64(bytes.LastIndexByte(data, '\n') + 1)
	number := 0
	for line := range bytes.Lines(data[:k.size]) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r struct {
			Hash    string     `json:"run_sha256"`
			Version string     `json:"version"`
			End     report.End `json:"end"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			if k.damaged == nil {
				k.damaged = fmt.Errorf("--out: %s:%d: %w; name a file of results, or a new one", path, number, err)
			}
			continue
		}
		if r.Hash != "" && r.End != report.Interrupted {
			k.versions[r.Hash] = r.Version
		}
	}
	return k, nil
}

// openBench opens a results file for adding to it, without what follows the
// first size bytes: a line that was not written to its end.
func openBench(path string, size int64) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, openError("--out", err)
	}
	if err := file.Truncate(size); err != nil {
		return nil, errors.Join(openError("--out", err), file.Close())
	}
	return file, nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
