package transport

import "github.com/ethereal-fabric/ethereal/fabric"

// Falcon names the transport of Google's Falcon (SIGCOMM 2025; specification of the Open Compute Project). Receivers
// keep packets that arrive out of order and report which arrived. Senders detect losses by RACK-TLP (RFC 8985) on each
// path of a connection. Here an ACK per packet takes the place of Falcon's bitmaps.
const Falcon Receiver = "falcon"

func falconSpec() Spec {
	return Spec{
		Kind: Transport, Name: string(Falcon), Summary: "always keeps the packet; with packets on several paths, senders detect losses path by path",
		transport: func(e *Endpoint) reliability {
			e.lateDetectors.byPath = true
			return selectiveRepeat{e}
		},
	}
}

// RFC 8985's names, for QPs whose losses are detected path by path. A packet is lost when one that was sent later by
// the same path has been answered, and RACK.rtt and the reordering window have passed since it was sent.

// rackTime returns RACK.rtt + RACK.reo_wnd: the round trip of the latest answered packet, and a quarter of the least.
func (e *Endpoint) rackTime() fabric.Time {
	if e.lateDetectors.latest == 0 {
		return e.cfg.Trip * 5 / 4
	}
	return e.lateDetectors.latest + min(e.lateDetectors.latest, e.cfg.Trip)/4
}

// newestAnswer is when the latest answered packet of a path was sent.
type newestAnswer struct {
	label fabric.Label
	at    fabric.Time
}

// answeredOn records the answer to a packet of a path.
func (l *lateDetector) answeredOn(label fabric.Label, sent fabric.Time) {
	for i := range l.paths {
		if l.paths[i].label == label {
			l.paths[i].at = max(l.paths[i].at, sent)
			return
		}
	}
	l.paths = append(l.paths, newestAnswer{label, sent})
}

// passed reports whether a later packet of the same path has been answered.
func (l *lateDetector) passed(d *departedPacket) bool {
	for _, p := range l.paths {
		if p.label == d.label {
			return d.at < p.at
		}
	}
	return false
}
