package interp

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// SetTime moves the switch's clock, for control operations between packets:
// inserted entries and new meters start from it. ns since the switch started.
func (s *Switch) SetTime(now int64) { s.now = now }

// Begin starts a transaction: Rollback undoes every control operation since,
// Commit keeps them. Packets must not be processed meanwhile if they are not
// to see half of it. Transactions do not nest: a second Begin commits the
// first.
func (s *Switch) Begin() {
	s.Commit()
	s.inTx = true
}

// Commit ends a transaction and keeps what it did.
func (s *Switch) Commit() {
	s.inTx = false
	for _, f := range s.done {
		f()
	}
	s.endTx()
}

// Rollback ends a transaction and undoes what it did, counters and meters
// that it wrote included.
func (s *Switch) Rollback() {
	s.inTx = false
	for _, f := range slices.Backward(s.undo) {
		f()
	}
	for i := range s.tables {
		s.changed(program.TableID(i))
	}
	s.endTx()
}

func (s *Switch) endTx() {
	clear(s.done)
	clear(s.undo)
	s.done, s.undo = s.done[:0], s.undo[:0]
}

// onRollback remembers how to undo.
func (s *Switch) onRollback(f func()) {
	if s.inTx {
		s.undo = append(s.undo, f)
	}
}

// SetDefault changes a table's default action. ErrConst: the program fixes it.
func (s *Switch) SetDefault(id program.TableID, g Target) error {
	ts, err := s.table(id)
	if err != nil {
		return err
	}
	fail := func(err error) error {
		return fmt.Errorf("interp: table %q: default: %w", ts.t.Info.Name, err)
	}
	if ts.t.Info.ConstDefault {
		return fail(fmt.Errorf("%w: the program fixes it", ErrConst))
	}
	d := defaultEntry{set: true, kind: g.Kind, args: make([]uint64, ts.t.ArgMax)}
	if g.Kind == ByAction && ts.t.Info.Profile >= 0 {
		// The default of a table with a profile may be a plain action.
		plain := *ts.t
		plain.Info.Profile = -1
		d.target, err = s.resolve(&plain, g)
	} else {
		d.target, err = s.resolve(ts.t, g)
	}
	if err != nil {
		return fail(err)
	}
	if err := s.putArgs(d.args, ts.t, g); err != nil {
		return fail(err)
	}
	s.setDefault(id, ts, d)
	return nil
}

func (s *Switch) setDefault(id program.TableID, ts *tableState, d defaultEntry) {
	s.changed(id)
	old := ts.def
	swap := func(from, to defaultEntry) {
		if from.set {
			s.hold(ts.t, from.kind, from.target, -1)
		}
		ts.def = to
		if to.set {
			s.hold(ts.t, to.kind, to.target, 1)
		}
	}
	swap(old, d)
	s.onRollback(func() { swap(d, old) })
}

// WatchTables has f called with every table whose entries, meters or default change, before
// or after they do. One watches at a time; nil ends it.
func (s *Switch) WatchTables(f func(program.TableID)) { s.watch = f }

func (s *Switch) changed(id program.TableID) {
	if s.watch != nil {
		s.watch(id)
	}
}

// ResetDefault restores the program's default action.
func (s *Switch) ResetDefault(id program.TableID) error {
	ts, err := s.table(id)
	if err != nil {
		return err
	}
	d := defaultEntry{}
	if ts.t.Default >= 0 {
		d = defaultEntry{set: true, target: int32(ts.t.Default), args: ts.t.DefaultArgs}
	}
	s.setDefault(id, ts, d)
	return nil
}

// Default reads a table's default action; false when it has none.
func (s *Switch) Default(id program.TableID) (Target, bool) {
	ts, err := s.table(id)
	if err != nil || !ts.def.set {
		return Target{}, false
	}
	return s.target(ts.t, ts.def.kind, ts.def.target, ts.def.args), true
}

// SetIdleTimeout changes an entry's idle timeout; 0 is none.
func (s *Switch) SetIdleTimeout(id program.TableID, h Handle, ns int64) error {
	ts, i, err := s.mutable(id, h, "idle timeout")
	if err != nil {
		return err
	}
	old := ts.entries[i].timeout
	ts.entries[i].timeout = ns
	s.onRollback(func() { ts.entries[i].timeout = old })
	return nil
}

// LastHit returns when (ns since the switch started) a packet last hit an
// entry, or when it was inserted. It is kept only in tables that support
// timeouts.
func (s *Switch) LastHit(id program.TableID, h Handle) (int64, error) {
	ts, err := s.table(id)
	if err != nil {
		return 0, err
	}
	i, err := ts.entry(h)
	if err != nil {
		return 0, err
	}
	return ts.entries[i].lastHit, nil
}

// Idle yields the entries whose idle timeout has passed at now, each with the
// time (ns) since its last hit. The table must not change meanwhile.
func (s *Switch) Idle(id program.TableID, now int64) iter.Seq2[Handle, int64] {
	return func(yield func(Handle, int64) bool) {
		ts, err := s.table(id)
		if err != nil {
			return
		}
		for i := range ts.entries {
			e := &ts.entries[i]
			if e.live && e.timeout > 0 && now-e.lastHit >= e.timeout && !yield(ts.handle(int32(i)), now-e.lastHit) {
				return
			}
		}
	}
}
