package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Read reads a file of records; a file that does not exist is empty, and an incomplete last line is ignored. size is
// the length up to the end of the last complete line. Of two records of a case the later counts.
func Read(path string) (rs []*Record, size int64, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	size = int64(bytes.LastIndexByte(data, '\n') + 1)
	at, line := map[string]int{}, 0
	for text := range bytes.Lines(data[:size]) {
		line++
		r := &Record{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w; name a file that ethereal cases has written", path, line, err)
		}
		if r.Name == "" { // of version 1
			r.Name = fmt.Sprintf("case-v1-%d-%d", r.Seed, r.Index)
		}
		if i, twice := at[r.Name]; twice {
			rs[i] = r
			continue
		}
		at[r.Name] = len(rs)
		rs = append(rs, r)
	}
	slices.SortStableFunc(rs, func(a, b *Record) int { return a.Index - b.Index })
	return rs, size, nil
}
