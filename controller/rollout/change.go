package rollout

import (
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
)

// linkChange is the change of links that is being written. There is one at a time, written stage by stage.
type linkChange struct {
	Change
	inProgress bool
	stage      uint64                   // number of the stage, so that a late answer is recognised
	due        fabric.Time              // end of the stage, if there is a StageTimeout
	rest       []controller.SwitchDelta // of the later stages
	waiting    map[fabric.NodeID]bool   // switches whose answer is missing
	notices    []*statepb.Update        // links that are back, announced when the change is written
}

// write is a P4Runtime Write that a switch has not answered yet.
type write struct {
	node  fabric.NodeID
	stage uint64 // of the change; 0: a repair
	reads uint64 // of the switch's tables before the write
}

// Outcome is the result of a table write.
type Outcome uint8

// The outcomes.
const (
	Acknowledged Outcome = iota
	Failed               // refused, in part or as a whole, or without an answer
	Unsent               // the session had ended; [Core.Session] reports that too
)

// takeNotices notifies agents of changes: failures at once, repairs with their change.
func (c *Core) takeNotices() {
	for _, u := range c.tables.Notices() {
		for _, l := range u.GetLinks() { // this is the newer state of the link
			older := func(u *statepb.Update) bool { return u.GetLinks()[0].GetLink() == l.GetLink() }
			c.restored = slices.DeleteFunc(c.restored, older)
			c.change.notices = slices.DeleteFunc(c.change.notices, older)
		}
		if isRecovery(u) && !c.cfg.RestoredAtOnce {
			c.restored = append(c.restored, u)
		} else {
			c.notify(u)
		}
	}
}

// isRecovery reports whether a notice announces that a link is back.
func isRecovery(u *statepb.Update) bool { return len(u.GetLinks()) > 0 && u.GetLinks()[0].GetUp() }

// notify numbers notices in the order in which they are sent.
func (c *Core) notify(us ...*statepb.Update) {
	for _, u := range us {
		c.notified++
		u.Epoch = c.notified
		c.ready.Notices = append(c.ready.Notices, u)
	}
}

// beginChange begins to write all changes since the last change began.
func (c *Core) beginChange(now fabric.Time) {
	r := c.tables.Ready()
	if len(r.Writes) == 0 {
		c.triggered = false
		c.notify(c.restored...)
		c.restored = nil
		return
	}
	c.change = linkChange{
		Change: Change{Trigger: c.trigger, Epoch: c.tables.Epoch()}, inProgress: true, stage: c.change.stage,
		rest: r.Writes, waiting: map[fabric.NodeID]bool{}, notices: c.restored,
	}
	c.triggered, c.restored = false, nil
	c.nextStage(now)
}

// nextStage writes the next stage with a writable switch, or ends the change.
func (c *Core) nextStage(now fabric.Time) {
	ch := &c.change
	for len(ch.rest) > 0 {
		ch.stage++
		ch.due = now + c.cfg.StageTimeout
		clear(ch.waiting)
		for stage := ch.rest[0].Stage; len(ch.rest) > 0 && ch.rest[0].Stage == stage; ch.rest = ch.rest[1:] {
			delta := ch.rest[0]
			ch.Updates += len(delta.Updates)
			if d := c.device(delta.Node); !d.synced {
				if !d.standby {
					ch.Missed++
				}
				continue // a repair will cover it
			}
			ch.Switches++
			ch.waiting[delta.Node] = true
			c.write(Write{Node: delta.Node, Stage: stage, Updates: delta.Updates}, ch.stage)
		}
		if len(ch.waiting) > 0 {
			return
		}
	}
	ch.inProgress, ch.Written = false, now
	c.notify(ch.notices...)
	ch.notices = nil
	c.emitEvent(Event{Kind: Changed, Change: ch.Change})
}

func (c *Core) write(w Write, stage uint64) {
	c.lastWrite++
	w.ID = c.lastWrite
	c.writes[w.ID] = write{w.Node, stage, c.device(w.Node).reads}
	c.device(w.Node).pending++
	c.ready.Writes = append(c.ready.Writes, w)
}

// Written reports the outcome of a write. Unknown ids are ignored.
func (c *Core) Written(now fabric.Time, id uint64, o Outcome) {
	w, ok := c.writes[id]
	if !ok {
		return
	}
	delete(c.writes, id)
	d := c.device(w.node)
	d.pending--
	switch {
	case o == Failed:
		d.synced = false
		c.emitEvent(Event{Kind: Refused, Node: d.id})
	case o == Unsent && w.reads == d.reads:
		d.synced = false // even if the session's end is reported later
	}
	c.releaseEarly(now)
	if ch := &c.change; ch.inProgress && w.stage == ch.stage {
		if o != Acknowledged {
			ch.Missed++
		}
		if delete(ch.waiting, w.node); len(ch.waiting) == 0 {
			c.nextStage(now)
		}
	}
}

// abandonStage continues without the switches that have not answered.
func (c *Core) abandonStage(now fabric.Time) {
	c.change.Missed += len(c.change.waiting)
	for _, id := range slices.Sorted(maps.Keys(c.change.waiting)) {
		c.emitEvent(Event{Kind: Late, Node: id})
	}
	c.nextStage(now)
}

// SessionState is the state of a session with a switch.
type SessionState uint8

// The states of a session. It can be written to from [Core.TablesRead] on.
const (
	NoSession SessionState = iota
	Standby                // another controller writes to the switch
	Open
)

// Session reports a session's new state.
func (c *Core) Session(now fabric.Time, node fabric.NodeID, s SessionState) {
	d := c.device(node)
	if s != Open {
		d.synced, d.read = false, nil
	}
	d.standby = s == Standby
	c.releaseEarly(now)
}

// TablesRead reports a switch's tables: entries, sorted by [controller.Key.Compare], and the number of stray ones.
// After the start, differences from the desired tables are written.
func (c *Core) TablesRead(now fabric.Time, node fabric.NodeID, entries []controller.Entry, stray int) {
	d := c.device(node)
	d.reads++
	d.standby = false
	d.audit = now + c.cfg.Audit
	r := tableRead{entries, stray}
	if !c.started {
		d.read = &r
		return
	}
	c.repair(now, d, r)
}

// repair writes the differences from the tables read. That includes the switch's remaining part of the present
// change.
func (c *Core) repair(now fabric.Time, d *device, r tableRead) {
	c.change.rest = slices.DeleteFunc(c.change.rest, func(x controller.SwitchDelta) bool { return x.Node == d.id })
	want := c.tables.Written(d.id)
	if c.cfg.ReadableEntries != nil {
		want = c.cfg.ReadableEntries(d.id, want)
	}
	us := controller.Diff(r.entries, want)
	d.synced = true
	c.emitEvent(Event{Kind: Repaired, Node: d.id, Count: len(us) + r.stray})
	if len(us)+r.stray > 0 {
		c.write(Write{Node: d.id, Updates: us, Repair: true}, 0)
	}
	c.notifyAllPorts(now, d)
	c.releaseEarly(now)
}
