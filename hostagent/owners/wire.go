package owners

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// maxLine is the maximum length of a line, in bytes.
const maxLine = 1 << 20

// pair is a queue pair in a message.
type pair struct {
	Dst   netip.Addr    `json:"dst"`
	Num   uint32        `json:"qp"`
	Label *fabric.Label `json:"label,omitempty"`
}

func (p pair) qp() labeller.QP { return labeller.QP{Dst: p.Dst.Unmap(), Num: p.Num} }

// message is a line from either end.
type message struct {
	Seq     uint64 `json:"seq,omitempty"`
	Show    []pair `json:"show,omitempty"`
	Forget  []pair `json:"forget,omitempty"`
	Timeout []pair `json:"timeout,omitempty"`
	Set     []pair `json:"set,omitempty"`
	Error   string `json:"error,omitempty"`
}

// parse reads a line. It checks that queue pairs and labels are valid and that those to set have a label.
func parse(line []byte) (*message, error) {
	m := &message{}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(m); err != nil {
		return nil, fmt.Errorf("owners: bad message: %w", err)
	}
	for _, list := range [][]pair{m.Show, m.Forget, m.Timeout, m.Set} {
		for _, p := range list {
			a := labeller.Assignment{QP: p.qp()}
			if p.Label != nil {
				a.Label = *p.Label
			}
			if err := a.Validate(); err != nil {
				return nil, fmt.Errorf("owners: bad message: %w", err)
			}
		}
	}
	for _, p := range m.Set {
		if p.Label == nil {
			return nil, fmt.Errorf("owners: bad message: set without a label")
		}
	}
	return m, nil
}

// lines calls take for every message until the stream ends.
func lines(r io.Reader, take func(*message) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		m, err := parse(s.Bytes())
		if err == nil {
			err = take(m)
		}
		if err != nil {
			return err
		}
	}
	return s.Err()
}

func (m *message) write(w io.Writer) error {
	text, err := json.Marshal(m)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}
