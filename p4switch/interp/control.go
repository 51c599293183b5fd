package interp

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// SetTime sets the switch's clock (ns since it started) for the control operations that follow: idle timeouts of
// inserted entries and new meters start then.
func (s *Switch) SetTime(now int64) { s.now = now }

// Begin starts a transaction of control operations: Commit keeps them, Rollback undoes them. Packets processed
// meanwhile see the operations made so far. Transactions do not nest: a second Begin commits the first.
func (s *Switch) Begin() {
	s.Commit()
	s.inTx = true
}

// Commit ends a transaction and keeps its changes.
func (s *Switch) Commit() {
	s.inTx = false
	for _, f := range s.done {
		f()
	}
	s.endTx()
}

// Rollback ends a transaction and undoes its operations, writes of counters and meters included.
func (s *Switch) Rollback() {
	s.inTx = false
	for _, f := range slices.Backward(s.undo) {
		f()
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

// SetDefault changes a table's default action. The error wraps [ErrConst] if the program fixes it.
func (s *Switch) SetDefault(id program.TableID, g Target) error {
	ts, err := s.tableByID(id)
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
		d.target, err = s.resolveTarget(&plain, g)
	} else {
		d.target, err = s.resolveTarget(ts.t, g)
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
	old := ts.def
	swap := func(from, to defaultEntry) {
		if from.set {
			s.countReferences(ts.t, from.kind, from.target, -1)
		}
		ts.def = to
		if to.set {
			s.countReferences(ts.t, to.kind, to.target, 1)
		}
		s.noteChanged(id, DefaultPlace)
	}
	swap(old, d)
	s.onRollback(func() { swap(d, old) })
}

// ResetDefault restores the program's default action.
func (s *Switch) ResetDefault(id program.TableID) error {
	ts, err := s.tableByID(id)
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

// Default returns a table's default action; false if it has none.
func (s *Switch) Default(id program.TableID) (Target, bool) {
	ts, err := s.tableByID(id)
	if err != nil || !ts.def.set {
		return Target{}, false
	}
	return s.targetOf(ts.t, ts.def.kind, ts.def.target, ts.def.args), true
}

// SetIdleTimeout changes an entry's idle timeout; 0 is none.
func (s *Switch) SetIdleTimeout(id program.TableID, h Handle, ns int64) error {
	ts, i, err := s.mutableEntry(id, h, "idle timeout")
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
	ts, err := s.tableByID(id)
	if err != nil {
		return 0, err
	}
	i, err := ts.entryIndex(h)
	if err != nil {
		return 0, err
	}
	return ts.entries[i].lastHit, nil
}

// Idle yields the entries whose idle timeout has passed at now, each with the
// time (ns) since its last hit. The table must not change meanwhile.
func (s *Switch) Idle(id program.TableID, now int64) iter.Seq2[Handle, int64] {
	return func(yield func(Handle, int64) bool) {
		ts, err := s.tableByID(id)
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
