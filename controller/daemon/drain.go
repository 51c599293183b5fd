package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrSevers is wrapped when a drain would cut hosts off.
var ErrSevers = errors.New("daemon: would cut off")

// Drain takes a link or switch, by name, out of use while it still works, or,
// with undo set, back into use. It returns the links concerned once the tables
// are written and the agents told, here and by the peers that answer: nothing is
// sent over them any more then but what is on its way. Without force it returns an error that wraps [ErrSevers],
// and drains nothing, if hosts would lose their last path.
func (d *Daemon) Drain(ctx context.Context, name string, undo, force bool) ([]string, error) {
	ids, err := d.named(name)
	if err != nil {
		return nil, err
	}
	var names []string
	var failed error
	err = d.ask(ctx, func() {
		if src, dst, ok := d.core.Severed(ids); ok && !undo && !force {
			failed = fmt.Errorf("%w: %s and %s would lose their last path without %s", ErrSevers, d.f.Name(src), d.f.Name(dst), name)
			return
		}
		for _, id := range ids {
			if failed = d.core.CanDrain(id); failed != nil {
				return
			}
		}
		var news []drains.Mark
		for _, id := range ids {
			names = append(names, d.f.LinkName(id))
			if d.drains.Put(id, !undo, force, d.cfg.Core.Instance) {
				news = append(news, drains.Mark{Link: id, Drained: !undo})
			}
		}
		failed = d.marked(news)
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	// The peer that is primary has to write them.
	if err := errors.Join(d.idle(ctx), d.tellPeers(ctx, true)); err != nil {
		return names, err
	}
	if undo {
		return names, nil
	}
	err = d.ask(ctx, func() {
		for i, id := range ids {
			if !d.core.LinkReport(id).Drained {
				failed = fmt.Errorf("%w: %s is back in use: together with what was drained at a peer at the same time, hosts would lose their last path", ErrSevers, names[i])
				return
			}
		}
	})
	return names, errors.Join(err, failed)
}

// marked carries out marks that are news, and remembers them.
func (d *Daemon) marked(news []drains.Mark) error {
	if len(news) == 0 {
		return nil
	}
	for _, m := range news {
		before := d.core.Epoch()
		if err := d.core.Drain(d.clock(), m.Link, m.Drained); err != nil {
			return err
		}
		up := !m.Drained
		d.cfg.Events.add(Record{Time: time.Now(), Kind: "drain", Link: d.f.LinkName(m.Link), Up: &up})
		if d.core.Epoch() != before {
			a := d.f.Link(m.Link).A
			d.linkChanged(time.Now(), a.Node, a.Port)
		}
	}
	return d.writeDrained()
}

// named returns the links that a link's or switch's name stands for.
func (d *Daemon) named(name string) ([]fabric.LinkID, error) {
	if id, err := d.f.LinkByName(name); err == nil {
		return []fabric.LinkID{id}, nil
	}
	node, err := d.f.NodeByName(name)
	if err != nil {
		return nil, fmt.Errorf("daemon: %q is neither a link, as tor0-agg1, nor a switch: %w", name, err)
	}
	return d.core.DrainLinks(node) // reads the fabric only
}

// idle waits until nothing is being written.
func (d *Daemon) idle(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		busy := false
		if err := d.ask(ctx, func() { busy = d.conductor.busy || !d.trigger.IsZero() }); err != nil {
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
	Links []drainedLink `json:"links"` // that were ever drained
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
		return fmt.Errorf("daemon: state file %s: %w; remove it to forget what is drained", d.cfg.StateFile, err)
	}
	for _, l := range file.Links {
		id, err := d.f.LinkByName(l.Name)
		if err == nil {
			err = d.core.Drain(0, id, l.Drained)
		}
		if err != nil {
			return fmt.Errorf("daemon: state file %s: %w", d.cfg.StateFile, err)
		}
		d.drains.Merge([]drains.Mark{{Link: id, Drained: l.Drained, Version: l.Version, By: l.By, Forced: l.Forced}})
	}
	return nil
}

// writeDrained replaces the state file as a whole.
func (d *Daemon) writeDrained() error {
	if d.cfg.StateFile == "" {
		return nil
	}
	file := drainedFile{Links: []drainedLink{}}
	for _, m := range d.drains.Marks() {
		file.Links = append(file.Links, drainedLink{d.f.LinkName(m.Link), m.Drained, m.Version, m.By, m.Forced})
	}
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return fmt.Errorf("daemon: state file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(d.cfg.StateFile), ".drained-*")
	if err != nil {
		return fmt.Errorf("daemon: state file: %w", err)
	}
	_, err = tmp.Write(append(text, '\n'))
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), d.cfg.StateFile)
	}
	if err != nil {
		return fmt.Errorf("daemon: state file: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
