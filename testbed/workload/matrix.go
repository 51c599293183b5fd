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

// trafficMatrix is an all-to-all of unequal messages, such as the dispatch of a mixture of experts: one line per
// sender, with one number per receiver. Rows and columns may have names.
type trafficMatrix struct {
	File string       `yaml:"file" required:"a CSV file of as many lines as numbers a line"` // relative to the file
	Unit fabric.Bytes `yaml:"unit"`                                                          // of the numbers, such as a token's bytes; 1B if absent
}

// Limits of a matrix: a million messages, 15 digits per number.
const (
	maxMatrixRanks = 1024
	maxMatrixBytes = 16 << 20
)

// program reads the matrix. Errors wrap [ErrProgram] and name the file and the line.
func (m trafficMatrix) program(path string) (*Program, error) {
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
// rank beginning with the rank after it. The diagonal is not sent, and no message is empty. The names of rows and
// columns are left out, and a byte-order mark.
func readMatrix(name string, data []byte, unit int64) (*Program, error) {
	bad := func(line, column int, format string, args ...any) error {
		return fmt.Errorf("%w: %s:%d:%d: %s", ErrProgram, name, line, column, fmt.Sprintf(format, args...))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	r := csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, -1
	rows, err := r.ReadAll()
	if p := (*csv.ParseError)(nil); errors.As(err, &p) {
		return nil, bad(p.Line, p.Column, "%v; write numbers and commas", p.Err)
	}
	header, index := names(rows)
	ranks := len(rows) - header
	if ranks < 2 || ranks > maxMatrixRanks {
		return nil, bad(1, 1, "%d lines of numbers; write one a rank, 2 to %d", ranks, maxMatrixRanks)
	}
	// A second pass finds the places: the reader knows only its last line.
	r = csv.NewReader(bytes.NewReader(data))
	r.Comment, r.TrimLeadingSpace, r.FieldsPerRecord = '#', true, -1
	for range header {
		_, _ = r.Read() // read before without error, as all below
	}
	sizes := make([][]int64, ranks)
	for src := range sizes {
		row, _ := r.Read()
		if len(row) != ranks+index {
			line, column := r.FieldPos(0)
			return nil, bad(line, column, "%d numbers; the file has %d lines, so write %d", len(row)-index, ranks, ranks)
		}
		for dst, text := range row[index:] {
			most := int64(math.MaxInt32) * 512 / unit
			n, ok := unitsToBytes(text, unit, most)
			if !ok {
				line, column := r.FieldPos(dst + index)
				return nil, bad(line, column, "%q is no number of 0 to %d; write what rank %d sends to rank %d", text, most, src, dst)
			}
			sizes[src] = append(sizes[src], n)
		}
	}
	p := &Program{Name: name, Ranks: make([][]Op, ranks)}
	own, ownBytes := 0, int64(0)
	for rank := range sizes {
		if b := sizes[rank][rank]; b > 0 {
			own, ownBytes = own+1, ownBytes+b
		}
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
	if own > 0 {
		p.notes = []note{{what: fmt.Sprintf("%s: the diagonal is not sent: %s with %v for themselves",
			name, fabric.Count(own, "rank"), fabric.Bytes(ownBytes))}}
	}
	return p, nil
}

// unitsToBytes returns a number of units in bytes, rounded to whole bytes, of a number that is not 0 at least one. Most
// is the largest number.
func unitsToBytes(text string, unit, most int64) (n int64, ok bool) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n * unit, n >= 0 && n <= most
	}
	f, ok := number(text)
	if !ok || !(f >= 0 && f <= float64(most)) {
		return 0, false
	}
	if f == 0 {
		return 0, true
	}
	return max(1, int64(math.Round(f*float64(unit)))), true
}

// number reads a decimal number such as 12, 1.5 or 1e5.
func number(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && !strings.ContainsAny(text, "xXpP_")
}

// names returns how many of the first rows and columns of a matrix are names, 0 or 1 each, as spreadsheets and pandas
// write them. Only a shape with one row or column more than numbers has any, so a wrong number is no name.
func names(rows [][]string) (header, index int) {
	if len(rows) < 2 {
		return 0, 0
	}
	switch width := len(rows[0]); {
	case len(rows) == width+1 && areNames(rows[0]):
		return 1, 0
	case len(rows) == width-1 && areNames(column(rows)):
		return 0, 1
	case len(rows) == width && width > 2 && areNames(rows[0][1:]) && areNames(column(rows[1:])):
		if _, ok := number(strings.TrimSpace(rows[0][0])); !ok {
			return 1, 1
		}
	}
	return 0, 0
}

// column returns the first cell of each row.
func column(rows [][]string) []string {
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = row[0] // a record has a field
	}
	return out
}

// areNames reports whether cells are names: texts that are no numbers, or 0, 1, 2, ... or 1, 2, 3, ...
func areNames(cells []string) bool {
	texts, counted := 0, 0
	for i, c := range cells {
		c = strings.TrimSpace(c)
		f, ok := number(c)
		if !ok && c != "" {
			texts++
		}
		if first, _ := number(strings.TrimSpace(cells[0])); ok && (first == 0 || first == 1) && f == first+float64(i) {
			counted++
		}
	}
	return len(cells) > 0 && (texts == len(cells) || counted == len(cells))
}
