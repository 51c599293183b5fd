package daemon

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// stateVersion is the version of the file's format.
const stateVersion = 2

// State is the state that an agent keeps in a file over a restart.
type State struct {
	Version  int           `json:"version"`
	Host     fabric.NodeID `json:"host"`
	Instance string        `json:"instance"` // the controller process that sent Links
	Epoch    uint64        `json:"epoch"`
	Links    []LinkState   `json:"links"`
	// Homes is the home labels of queue pairs that were moved off their paths, if the queue pairs belong to other
	// programs or an RNIC and so outlive the agent.
	Homes []Home `json:"homes,omitempty"`
}

// Home is a queue pair with its home label: that of the path to which it returns when the path works again.
type Home struct {
	Dst   netip.Addr   `json:"dst"`
	Num   uint32       `json:"qp"`
	Label fabric.Label `json:"label"`
}

// LinkState is a [statepb.LinkState] as it is written in the file.
type LinkState struct {
	Link  uint32 `json:"link"`
	Up    bool   `json:"up"`
	Epoch uint64 `json:"epoch"`
}

// SetLinks replaces the link states by those of a snapshot.
func (s *State) SetLinks(u *statepb.Update) {
	s.Instance, s.Epoch, s.Links = u.GetInstance(), u.GetEpoch(), nil
	for _, l := range u.GetLinks() {
		s.Links = append(s.Links, LinkState{l.GetLink(), l.GetUp(), l.GetEpoch()})
	}
}

// SetHomes replaces the queue pairs' home labels: see [Home].
func (s *State) SetHomes(homes map[labeller.QP]fabric.Label) {
	s.Homes = nil
	for q, l := range homes {
		s.Homes = append(s.Homes, Home{q.Dst, q.Num, l})
	}
	slices.SortFunc(s.Homes, func(a, b Home) int { return cmp.Or(a.Dst.Compare(b.Dst), cmp.Compare(a.Num, b.Num)) })
}

// HomeLabels returns the home labels by queue pair: see [Home].
func (s *State) HomeLabels() map[labeller.QP]fabric.Label {
	homes := make(map[labeller.QP]fabric.Label, len(s.Homes))
	for _, h := range s.Homes {
		homes[labeller.QP{Dst: h.Dst, Num: h.Num}] = h.Label
	}
	return homes
}

// Known returns the link states as a controller's snapshot; nil if there are none.
func (s *State) Known() *statepb.Update {
	if s.Instance == "" {
		return nil
	}
	u := &statepb.Update{Instance: s.Instance, Epoch: s.Epoch, Snapshot: true}
	for _, l := range s.Links {
		u.Links = append(u.Links, &statepb.LinkState{Link: l.Link, Up: l.Up, Epoch: l.Epoch})
	}
	return u
}

// maxState is the largest size of a state file, in bytes.
const maxState = 256 << 20

// ReadState reads a host's state from a file. A missing file is an empty state. A file of another host, or with wrong
// syntax, is an error that wraps [ErrConfig].
func ReadState(path string, host fabric.NodeID) (*State, error) {
	s := &State{Version: stateVersion, Host: host}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: state file: %w", ErrConfig, err)
	}
	if info.Size() > maxState {
		return nil, fmt.Errorf("%w: state file %s: %d bytes; it has at most %d", ErrConfig, path, info.Size(), maxState)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: state file: %w", ErrConfig, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("%w: state file %s: %w; remove it to start without", ErrConfig, path, err)
	}
	if s.Version != stateVersion || s.Host != host {
		return nil, fmt.Errorf("%w: state file %s is version %d of host %d; this is version %d of host %d", ErrConfig, path,
			s.Version, s.Host, stateVersion, host)
	}
	return s, nil
}

// Write replaces the file with the state. After a crash the file has the old state or the new one.
func (s *State) Write(fs durable.FS, path string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("hostagent daemon: state file: %w", err)
	}
	if err := durable.Replace(fs, path, append(text, '\n')); err != nil {
		return fmt.Errorf("hostagent daemon: state file: %w", err)
	}
	return nil
}
