package host

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// loggedCore logs the calls of a core.
type loggedCore struct {
	*logic
	log *Log
}

func (x *loggedCore) Post(now fabric.Time, m hostagent.Flow) {
	x.log.add(Record{At: now, Call: "post", Message: m.ID, Dst: m.Dst, Bytes: m.Bytes})
	x.logic.Post(now, m)
}

func (x *loggedCore) Abandon(now fabric.Time, message uint64) {
	x.log.add(Record{At: now, Call: "abandon", Message: message})
	x.logic.Abandon(now, message)
}

func (x *loggedCore) Tick(now fabric.Time) {
	x.log.add(Record{At: now, Call: "tick"})
	x.logic.Tick(now)
}

func (x *loggedCore) Acked(now fabric.Time, qp transport.QP, bytes int64) {
	x.log.add(Record{At: now, Call: "acked", QP: qp, Bytes: bytes})
	x.logic.Acked(now, qp, bytes)
}

func (x *loggedCore) Done(now fabric.Time, qp transport.QP) {
	x.log.add(Record{At: now, Call: "done", QP: qp})
	x.logic.Done(now, qp)
}

func (x *loggedCore) Timeout(now fabric.Time, qp transport.QP) {
	x.log.add(Record{At: now, Call: "timeout", QP: qp})
	x.logic.Timeout(now, qp)
}

func (x *loggedCore) Refuse(now fabric.Time, qp transport.QP) (message uint64, ok bool) {
	x.log.add(Record{At: now, Call: "refuse", QP: qp})
	return x.logic.Refuse(now, qp)
}

func (x *loggedCore) Echo(now fabric.Time, qp transport.QP, e transport.Echo) {
	x.log.add(Record{At: now, Call: "echo", QP: qp, Echo: &e})
	x.logic.Echo(now, qp, e)
}

func (x *loggedCore) LostBy(now fabric.Time, qp transport.QP, l fabric.Label) {
	x.log.add(Record{At: now, Call: "lost-by", QP: qp, Label: l})
	x.logic.LostBy(now, qp, l)
}

func (x *loggedCore) Lost(now fabric.Time, qp transport.QP, l transport.Loss) {
	x.log.add(Record{At: now, Call: "lost", QP: qp, Lost: (*hostagent.Loss)(&l)})
	x.logic.Lost(now, qp, l)
}

func (x *loggedCore) Overdue(now fabric.Time, qp transport.QP, o transport.Overdue) {
	x.log.add(Record{At: now, Call: "overdue", QP: qp, Overdue: (*hostagent.Overdue)(&o)})
	x.logic.Overdue(now, qp, o)
}

func (x *loggedCore) PathAnswered(now fabric.Time, peer fabric.NodeID, question uint32) {
	x.log.add(Record{At: now, Call: "path-answered", Dst: peer, Question: question})
	x.logic.PathAnswered(now, peer, question)
}

func (x *loggedCore) Congested(now fabric.Time, peer fabric.NodeID, l fabric.Label, inbound bool) {
	x.log.add(Record{At: now, Call: "congested", Dst: peer, Label: l, Inbound: inbound})
	x.logic.Congested(now, peer, l, inbound)
}

func (x *loggedCore) Quench(now fabric.Time, q frame.Quench) hostagent.Verdict {
	x.log.add(Record{At: now, Call: "quench", Quench: &q})
	return x.logic.Quench(now, q)
}

func (x *loggedCore) Update(now fabric.Time, u *statepb.Update) {
	x.log.add(Record{At: now, Call: "update", Update: u})
	x.logic.Update(now, u)
}

func (x *loggedCore) Probe(now fabric.Time, r ProbeRequest) {
	x.log.add(Record{At: now, Call: "probe", Probe: &r})
	x.logic.Probe(now, r)
}

func (x *loggedCore) AgentEnded(now fabric.Time) {
	x.log.add(Record{At: now, Call: "leave"})
	x.logic.AgentEnded(now)
}

func (x *loggedCore) Received(now fabric.Time) {
	if x.scheme.packets != nil {
		x.log.add(Record{At: now, Call: "received"})
	}
	x.logic.Received(now)
}

func (x *loggedCore) Label(now fabric.Time, qp transport.QP) fabric.Label {
	x.log.add(Record{At: now, Call: "label", QP: qp})
	l := x.logic.Label(now, qp)
	x.log.add(Record{Do: "label", QP: qp, Label: l})
	return l
}

func (x *loggedCore) AgentRestarted(now fabric.Time, u *statepb.Update) {
	if x.agentAbsent {
		x.log.add(Record{At: now, Call: "return", Update: u})
	}
	x.logic.AgentRestarted(now, u)
}

// loggedEndpoint logs the calls of an endpoint.
type loggedEndpoint struct {
	Endpoint
	log *Log
}

func (x *loggedEndpoint) Open(now fabric.Time, m transport.Message) error {
	x.log.add(Record{
		Do: "open", QP: m.QP, Message: m.ID, Dst: m.Dst, Offset: m.Address, Bytes: m.Bytes, Label: m.Label, Start: m.Start,
	})
	return x.Endpoint.Open(now, m)
}

func (x *loggedEndpoint) Resend(qp transport.QP) error {
	x.log.add(Record{Do: "resend", QP: qp})
	return x.Endpoint.Resend(qp)
}

func (x *loggedEndpoint) Restart(qp transport.QP) error {
	x.log.add(Record{Do: "restart", QP: qp})
	return x.Endpoint.Restart(qp)
}

func (x *loggedEndpoint) Relabel(qp transport.QP, l fabric.Label) error {
	x.log.add(Record{Do: "relabel", QP: qp, Label: l})
	return x.Endpoint.Relabel(qp, l)
}

func (x *loggedEndpoint) Hold(qp transport.QP, until fabric.Time) error {
	x.log.add(Record{Do: "hold", QP: qp, Start: until})
	return x.Endpoint.Hold(qp, until)
}

func (x *loggedEndpoint) Close(qp transport.QP) error {
	x.log.add(Record{Do: "close", QP: qp})
	return x.Endpoint.Close(qp)
}

func (x *loggedEndpoint) Ask(dst fabric.NodeID, l fabric.Label, question uint32) error {
	x.log.add(Record{Do: "ask", Dst: dst, Label: l, Question: question})
	return x.Endpoint.Ask(dst, l, question)
}

// loggedShell logs the calls of a shell.
type loggedShell struct {
	Shell
	log *Log
}

func (x *loggedShell) Alarm(at fabric.Time) {
	x.log.add(Record{Do: "alarm", Start: at})
	x.Shell.Alarm(at)
}

func (x *loggedShell) Flipped(now fabric.Time, f hostagent.Flip) {
	x.log.add(Record{Do: "flipped", Flip: &f})
	x.Shell.Flipped(now, f)
}

func (x *loggedShell) Sent(now fabric.Time, message uint64) {
	x.log.add(Record{Do: "sent", Message: message})
	x.Shell.Sent(now, message)
}

func (x *loggedShell) PathsFailed(now fabric.Time, failed []hostagent.Failed) {
	for _, f := range failed {
		x.log.add(Record{Do: "failed", Dst: f.Dst, Label: f.Label})
	}
	x.Shell.PathsFailed(now, failed)
}

func (x *loggedShell) Probed(now fabric.Time, r ProbeResult) {
	x.log.add(Record{Do: "probed", Probed: &r})
	x.Shell.Probed(now, r)
}

func (x *loggedShell) Fault(now fabric.Time, err error) {
	x.log.add(Record{Do: "fault", Fault: err.Error()})
	x.Shell.Fault(now, err)
}
