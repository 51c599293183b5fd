package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/controller/rollout"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// Drain takes a link or switch, by name, out of use while it still works, or, with undo, back into use. It returns
// the links concerned once the tables are written and the agents notified, here and by the peers that answer. From
// then on only packets already in flight cross the links. Without force, if hosts would lose their last path, it
// drains nothing and returns an error that wraps [rollout.ErrSevers].
func (d *Daemon) Drain(ctx context.Context, name string, undo, force bool) ([]string, error) {
	ids, err := d.named(name)
	if err != nil {
		return nil, err
	}
	var names []string
	var failed error
	err = d.ask(ctx, func() {
		for _, id := range ids {
			names = append(names, d.f.LinkName(id))
		}
		if _, failed = d.core.Drain(d.clock(), ids, !undo, force); failed != nil {
			failed = fmt.Errorf("daemon: %s: %w", name, failed)
		}
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	// The primary peer has to write them.
	if err := errors.Join(d.idle(ctx), d.exchangeMarks(ctx, true)); err != nil {
		return names, err
	}
	if undo {
		return names, nil
	}
	err = d.ask(ctx, func() {
		for i, id := range ids {
			if !d.core.Tables().LinkReport(id).Drained {
				failed = fmt.Errorf("daemon: %s is back in use: %w, together with a peer's drains of the same time", names[i], rollout.ErrSevers)
				return
			}
		}
	})
	return names, errors.Join(err, failed)
}

// named returns the links of a link's or switch's name.
func (d *Daemon) named(name string) ([]fabric.LinkID, error) {
	if id, err := d.f.LinkByName(name); err == nil {
		return []fabric.LinkID{id}, nil
	}
	node, err := d.f.NodeByName(name)
	if err != nil {
		return nil, fmt.Errorf("daemon: %q is neither a link, as tor0-agg1, nor a switch: %w", name, err)
	}
	return d.core.Tables().DrainLinks(node) // reads the fabric only
}

// idle waits until no write is in progress.
func (d *Daemon) idle(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		busy := false
		if err := d.ask(ctx, func() { busy = !d.core.Idle() }); err != nil {
			return err
		}
		if !busy {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// drainedFile is the state file.
type drainedFile struct {
	Links []drainedLink `json:"links"` // all that were ever drained
}

// drainedLink is a drains.Mark.
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
