package transport

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// A path probe asks whether a path is alive: a zero-length RDMA WRITE with the path's label, in the class of ACKs, so
// that no data delay it and no pause frame stops it. It belongs to no queue pair: its number is a fixed one that no
// queue pair has, and its PSN is the question's number. The ACK repeats both, and the probe's label, so that it returns
// by the same path. Neither end keeps a state. An RNIC's driver can do the same by a queue pair of another traffic
// class.

// probeQPN is the queue pair number of path probes.
const probeQPN = slotMask

// classControl is DSCP CS6 in an IP header's traffic class: switches serve such RoCEv2 packets as they serve ACKs.
const classControl = 48 << 2

// Ask sends a path probe to a host with label l. Its answer is reported to [PathWatcher].PathAnswered with the same
// question: a number of the caller's, 24 bits.
func (e *Endpoint) Ask(dst fabric.NodeID, l fabric.Label, question uint32) error {
	if dst < 0 || int(dst) >= e.cfg.Fabric.Hosts() || dst == e.cfg.Host {
		return fmt.Errorf("%w: path probe to node %d; use a host other than %d", ErrMessage, dst, e.cfg.Host)
	}
	e.stats.PathProbes++
	e.queueControl(controlPacket{dst: dst, qpn: probeQPN, psn: question & psnMask, label: l, kind: pathProbe})
	return nil
}

// initProbe prepares the header of path probes.
func (e *Endpoint) initProbe() error {
	t := &e.probe
	if err := e.stack.encode(t.hdr[:], &e.cfg, e.cfg.Host, frame.WriteMiddle, classControl); err != nil {
		return err
	}
	t.hdr[e.stack.bth], t.hdr[e.stack.bth+bthAckReq] = byte(frame.WriteOnly), ackReq
	t.complete(&e.stack)
	return nil
}

// receiveProbe answers a path probe.
func (e *Endpoint) receiveProbe(p *packet) {
	e.stats.PathProbesTaken++
	e.queueControl(controlPacket{dst: p.src, qpn: probeQPN, psn: p.psn, label: p.label, syndrome: frame.ACK})
}

// buildProbe writes a path probe.
func (e *Endpoint) buildProbe(k controlPacket, dst []byte) Frame {
	st := &e.stack
	n := copy(dst, e.probe.hdr[:st.len])
	frame.RETH(dst[n:]).Encode(&frame.RETHFields{})
	n += frame.RETHSize
	e.fillAddress(k, dst[:n], e.probe.ipSum)
	return Frame{Len: n, Tail: frame.ICRCSize, Control: true}
}
