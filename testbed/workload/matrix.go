package workload

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// matrix is an all-to-all of unequal messages, such as the dispatch of a mixture of experts: one line per sender,
// with one number per receiver.
type matrix struct {
	File string       `yaml:"file" required:"a CSV file of as many lines as numbers a line"` // relative to the file
	Unit fabric.Bytes `yaml:"unit"`                                                          // of the numbers, such as a token's bytes; 1B if absent
}

// Limits of a matrix: a million messages, 15 digits per number.
const (
	maxMatrixRanks = 1024
	maxMatrixBytes = 16 << 20
)

// program reads the matrix. Errors wrap [ErrProgram] and name the file and the line.
func (m matrix) program(path string) (*Program, error) {
	data, err := strictyaml.ReadLarge(path, maxMatrixBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	unit := int64(m.Unit)
	if unit == 0 {
		unit = 1
	}
	return readMatrix(path, data, unit)
}

// readMatrix returns the program in which every rank sends the matrix's messages to all others in one step, each
// rank beginning with the rank after it. The diagonal is not sent, and no message is empty.
func readMatrix(name string, data []byte, unit int64) (*Program, error) {
	bad := func(line, column int, format string, args ...any) error {
		return fmt.Errorf("%w: %s:%d:%d: %s", ErrProgram, name, line, column, fmt.Sprintf(format, args...))
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, -1
	rows, err := r.ReadAll()
	if p := (*csv.ParseError)(nil); errors.As(err, &p) {
		return nil, bad(p.Line, p.Column, "%v; write numbers and commas", p.Err)
	}
	ranks := len(rows)
	if ranks < 2 || ranks > maxMatrixRanks {
		return nil, bad(1, 1, "%d lines of numbers; write one a rank, 2 to %d", ranks, maxMatrixRanks)
	}
	// A second pass finds the places: the reader knows only its last line.
	r = csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, -1
	sizes := make([][]int64, ranks)
	for src := range sizes {
		row, _ := r.Read() // read before without error
		if len(row) != ranks {
			line, column := r.FieldPos(0)
			return nil, bad(line, column, "%d numbers; the file has %d lines, so write %d", len(row), ranks, ranks)
		}
		for dst, text := range row {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if most := int64(math.MaxInt32) * 512 / unit; err != nil || n < 0 || n > most {
				line, column := r.FieldPos(dst)
				return nil, bad(line, column, "%q is no number of 0 to %d; write what rank %d sends to rank %d", text, most, src, dst)
			}
			sizes[src] = append(sizes[src], n*unit)
		}
	}
	p := &Program{Name: name, Ranks: make([][]Op, ranks)}
	for rank := range sizes {
		for i := 1; i < ranks; i++ {
			if to := (rank + i) % ranks; sizes[rank][to] > 0 {
				p.Ranks[rank] = append(p.Ranks[rank], Op{Kind: Send, Bytes: sizes[rank][to], Peer: to})
			}
			if from := (rank + i) % ranks; sizes[from][rank] > 0 {
				p.Ranks[rank] = append(p.Ranks[rank], Op{Kind: Recv, Bytes: sizes[from][rank], Peer: from})
			}
		}
	}
	if !slices.ContainsFunc(p.Ranks, func(ops []Op) bool { return len(ops) > 0 }) {
		return nil, bad(1, 1, "no rank sends anything; write what ranks send to others")
	}
	return p, nil
}
