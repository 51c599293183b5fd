package recording

import (
	"fmt"
	"io"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/transport"
	"github.com/ethereal-fabric/ethereal/testbed/host"
)

// ReadHostLog converts a host's event log into a recording: messages, pieces with their paths, notifications and flips.
// Times are the host's own, from its start. It also returns the host's name.
func ReadHostLog(r io.Reader, f *fabric.Fabric) (_ *Recording, name string, err error) {
	rec := New(f, Options{})
	rec.exact = true
	var id fabric.NodeID
	var now fabric.Time
	err = host.ReadLog(r, f, func(x host.Record) error {
		switch {
		case x.Dst < 0 || int(x.Dst) >= f.Hosts():
			return fmt.Errorf("dst: %d is no host of this fabric", x.Dst)
		case x.Quench != nil && (x.Quench.Switch < 0 || int(x.Quench.Switch) >= f.Nodes()):
			return fmt.Errorf("quench: %d is no switch of this fabric", x.Quench.Switch)
		case x.New != nil:
			id = x.New.Host
		case x.Call != "":
			now = x.At
			recordCall(rec, id, x)
		default:
			recordEffects(rec, id, now, x)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return rec.EndWithoutResult(), f.Name(id), nil
}

// recordCall records a call of a host's core.
func recordCall(rec *Recorder, id fabric.NodeID, x host.Record) {
	switch x.Call {
	case "post":
		rec.Posted(x.At, id, x.Message, x.Dst, x.Bytes)
	case "done", "refuse":
		rec.Closed(x.At, id, uint64(x.QP))
	case "timeout":
		rec.TimedOut(x.At, id, uint64(x.QP))
	case "update", "return":
		if !x.Update.GetHeartbeat() {
			rec.Notified(x.At, id)
		}
	case "quench":
		if x.Quench != nil {
			rec.Quenched(x.At, id, *x.Quench)
		}
	default:
		rec.ReactionEnded(id)
	}
}

// recordEffects records the effects of a call at a host.
func recordEffects(rec *Recorder, id fabric.NodeID, now fabric.Time, x host.Record) {
	switch x.Do {
	case "open":
		rec.Opened(now, id, transport.Message{
			QP: x.QP, ID: x.Message, Dst: x.Dst, Bytes: x.Bytes, Label: x.Label, Start: x.Start,
		})
	case "close":
		rec.Closed(now, id, uint64(x.QP))
	case "sent":
		rec.Sent(now, x.Message)
	case "flipped":
		if x.Flip != nil {
			rec.Flipped(now, id, *x.Flip)
		}
	}
}
