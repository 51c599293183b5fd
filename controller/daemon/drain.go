package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// ErrUnacknowledged is wrapped by the error of a drain that is kept, but not yet in all tables.
var ErrUnacknowledged = errors.New("no acknowledgement from")

// ackTimeout bounds the wait for switches' acknowledgements of a drain.
const ackTimeout = 5 * time.Second

// takeoverTime bounds the wait until switches have replaced a primary that hangs; see package rpc of the switch.
const takeoverTime = 8 * time.Second

// Drain takes a link or switch, by name, out of use while it still works, or, with undo, back into use. It returns
// the links concerned once every switch whose tables depend on them has acknowledged its tables, to this controller
// or to a peer, and the agents are notified. From then on only packets already in flight cross drained links. A
// switch counts as well without acknowledgement if all its neighbours report their ports to it down. If another does
// not acknowledge within [ackTimeout], the error wraps [ErrUnacknowledged]; the drain is kept and written when the
// switch answers. Without force, if hosts would lose their last path, it drains nothing and returns an error that
// wraps [rollout.ErrSevers].
func (d *Daemon) Drain(ctx context.Context, name string, undo, force bool) ([]string, error) {
	ids, err := d.linksNamed(name)
	if err != nil {
		return nil, err
	}
	var names []string
	var users []fabric.NodeID
	var failed error
	err = d.runInLoop(ctx, func() {
		for _, id := range ids {
			names = append(names, d.f.LinkName(id))
		}
		if _, failed = d.core.Drain(d.clock(), ids, !undo, force); failed != nil {
			failed = fmt.Errorf("daemon: %s: %w", name, failed)
		}
		users = d.core.Tables().SwitchesUsing(ids)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	behind, err := d.waitAcknowledged(ctx, ids, users, ackTimeout, false)
	if err != nil {
		return names, err
	}
	atPeers, unreached, err := d.exchangeMarks(ctx, users)
	if err != nil {
		return names, err
	}
	if !undo {
		err = d.runInLoop(ctx, func() {
			for i, id := range ids {
				if !d.core.Tables().LinkReport(id).Drained {
					failed = fmt.Errorf("daemon: %s is back in use: %w, together with a peer's drains of the same time", names[i], rollout.ErrSevers)
					return
				}
			}
		})
		if err := errors.Join(err, failed); err != nil {
			return names, err
		}
	}
	behind = slices.DeleteFunc(behind, func(id fabric.NodeID) bool { return slices.Contains(atPeers, id) })
	if len(behind) > 0 && unreached != nil { // that peer may have been the primary, and this controller may be next
		if behind, err = d.waitAcknowledged(ctx, ids, behind, takeoverTime, true); err != nil {
			return names, err
		}
	}
	if len(behind) == 0 {
		return names, nil
	}
	return names, errors.Join(d.unacknowledged(name, undo, behind), unreached)
}

// unacknowledged returns the error for switches that have not acknowledged a drain.
func (d *Daemon) unacknowledged(name string, undo bool, behind []fabric.NodeID) error {
	const most = 4 // switches named
	var who []string
	for _, id := range behind[:min(len(behind), most)] {
		who = append(who, d.f.Name(id))
	}
	if n := len(behind) - most; n > 0 {
		who = append(who, fmt.Sprintf("%d more", n))
	}
	not := "not drained"
	if undo {
		not = "not back in use"
	}
	return fmt.Errorf("daemon: %s is %s: %w %s; it will be when they answer: repeat the command to see", name, not,
		ErrUnacknowledged, strings.Join(who, ", "))
}

// waitAcknowledged waits until switches have acknowledged what follows from the states of the links, and no change is
// being written, for a time. It returns the switches that have not acknowledged. It waits for switches to which another
// controller writes only with others.
func (d *Daemon) waitAcknowledged(
	ctx context.Context, ids []fabric.LinkID, switches []fabric.NodeID, most time.Duration, others bool,
) ([]fabric.NodeID, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(most)
	defer limit.Stop()
	for {
		var behind []fabric.NodeID
		wait := false
		if err := d.runInLoop(ctx, func() {
			behind = slices.DeleteFunc(d.core.Behind(ids, switches), func(id fabric.NodeID) bool {
				return d.device(id).verdict == Dead
			})
			wait = !d.core.Idle() || slices.ContainsFunc(behind, func(id fabric.NodeID) bool {
				return others || d.device(id).phase != p4rt.Backup
			})
		}); err != nil || !wait {
			return behind, err
		}
		select {
		case <-ctx.Done():
			return behind, ctx.Err()
		case <-limit.C:
			return behind, nil
		case <-tick.C:
		}
	}
}

// linksNamed returns the links of a link's or switch's name.
func (d *Daemon) linksNamed(name string) ([]fabric.LinkID, error) {
	if id, err := d.f.LinkByName(name); err == nil {
		return []fabric.LinkID{id}, nil
	}
	node, err := d.f.NodeByName(name)
	if err != nil {
		return nil, fmt.Errorf("daemon: %q is neither a link, as tor0-agg1, nor a switch: %w", name, err)
	}
	return d.core.Tables().DrainLinks(node) // reads the fabric only
}

// drainedFile is the state file.
type drainedFile struct {
	Links []drainedLink `json:"links"` // all that were ever drained
}

// drainedLink is the JSON form of a drained link, as [drains.Mark] records it.
type drainedLink struct {
	Name    string `json:"name"`
	Drained bool   `json:"drained"`
	Version uint64 `json:"version"`
	By      string `json:"by"`
	Forced  bool   `json:"forced,omitempty"`
}

func (d *Daemon) readDrained() error {
	if d.cfg.StateFile == "" {
		return nil
	}
	text, err := os.ReadFile(d.cfg.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("daemon: state file: %w", err)
	}
	var file drainedFile
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return fmt.Errorf("daemon: state file %s: %w; remove it to forget the drains", d.cfg.StateFile, err)
	}
	var marks []drains.Mark
	for _, l := range file.Links {
		id, err := d.f.LinkByName(l.Name)
		if err != nil {
			return fmt.Errorf("daemon: state file %s: %w", d.cfg.StateFile, err)
		}
		marks = append(marks, drains.Mark{Link: id, Drained: l.Drained, Version: l.Version, By: l.By, Forced: l.Forced})
	}
	if err := d.core.Remember(marks); err != nil {
		return fmt.Errorf("daemon: state file %s: %w", d.cfg.StateFile, err)
	}
	return nil
}

// keepDrained replaces the state file as a whole.
func (c *Config) keepDrained(marks []drains.Mark) error {
	file := drainedFile{Links: []drainedLink{}}
	for _, m := range marks {
		file.Links = append(file.Links, drainedLink{c.Core.Fabric.LinkName(m.Link), m.Drained, m.Version, m.By, m.Forced})
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err == nil {
		err = durable.Replace(c.Files, c.StateFile, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("daemon: state file: %w", err)
	}
	return nil
}
