package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// limit returns the time-out of each request.
func (c *Config) limit() time.Duration { return cmp.Or(c.Limit, 5*time.Second) }

// checkSwitch checks one switch. led: a controller is its primary.
func (c *checker) checkSwitch(ctx context.Context, id fabric.NodeID, led bool) {
	name, t := c.f.Name(id), c.Daemon.Targets[id]
	add := func(l checklist.Light, check, seen, remedy string) { c.list.Add(l, name, check, seen, remedy) }
	conn, err := c.Daemon.Dial(t.P4Runtime)
	if err != nil {
		add(checklist.Red, "p4runtime", err.Error(), "correct p4runtime in the targets file")
	} else {
		defer conn.Close() //nolint:errcheck // nothing is under way
		if c.p4runtime(ctx, id, conn, add) {
			c.program(ctx, id, conn, add)
			if !led {
				c.primary(ctx, id, conn, add)
			}
		}
	}
	c.peerCertificate(ctx, t.P4Runtime, name)
	c.gnmi(ctx, id, add)
}

type addLine func(l checklist.Light, check, seen, remedy string)

// reachRemedy returns the remedy for an error of a connection.
func reachRemedy(err error, addr, what, flag string) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return what + " speaks no TLS: give it a certificate, or leave --tls-ca out"
	case strings.Contains(text, "certificate has expired"):
		return "make " + what + " a new certificate: scripts/lab-ca"
	case strings.Contains(text, "x509:"), strings.Contains(text, "tls:"):
		return what + "'s certificate must name " + addr + " and come from an authority in --tls-ca, and ours from one that it knows"
	case strings.Contains(text, "connection refused"), strings.Contains(text, "no such file"):
		return "start " + what + ", or correct " + flag
	case strings.Contains(text, "error reading server preface"):
		return "something else, or " + what + " with TLS, is at " + addr + ": give --tls-ca, or correct " + flag
	case status.Code(err) == codes.DeadlineExceeded:
		return "see that " + addr + " is reachable (ping, firewall), and that " + what + " runs there"
	}
	return "see that " + what + " runs at " + addr + "; correct " + flag + " otherwise"
}

// p4runtime reports whether the switch answers.
func (c *checker) p4runtime(ctx context.Context, id fabric.NodeID, conn *grpc.ClientConn, add addLine) bool {
	t := c.Daemon.Targets[id]
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	r, err := c.Daemon.PipelineOf(id).Client(conn).Capabilities(ctx, &p4.CapabilitiesRequest{}, grpc.WaitForReady(false))
	switch status.Code(err) {
	case codes.OK:
		v := r.GetP4RuntimeApiVersion()
		if !strings.HasPrefix(v, "1.") {
			add(checklist.Red, "p4runtime", t.P4Runtime+" speaks version "+v, "install a switch with P4Runtime 1.x")
			return false
		}
		add(checklist.Green, "p4runtime", t.P4Runtime+" answers, version "+v, "")
	case codes.Unimplemented:
		add(checklist.Yellow, "p4runtime", t.P4Runtime+" answers, but not what version it is", "P4Runtime 1.3 or later reports it; earlier ones are not tried")
	default:
		add(checklist.Red, "p4runtime", withoutCode(err), reachRemedy(err, t.P4Runtime, "the switch's P4Runtime server", "p4runtime in the targets file"))
		return false
	}
	return true
}

// withoutCode returns the text of an error without gRPC's code.
func withoutCode(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// program checks the switch's program.
func (c *checker) program(ctx context.Context, id fabric.NodeID, conn *grpc.ClientConn, add addLine) {
	t := c.Daemon.Targets[id]
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	pipeline := c.Daemon.PipelineOf(id)
	found, err := pipeline.Inspect(ctx, pipeline.Client(conn), t.DeviceID)
	switch {
	case status.Code(errors.Unwrap(err)) == codes.NotFound || err != nil && strings.Contains(err.Error(), "device"):
		add(checklist.Red, "device id", withoutCode(errors.Unwrap(err)), fmt.Sprintf("correct device_id in the targets file (now %d), or start the switch with it", t.DeviceID))
	case err != nil:
		add(checklist.Red, "program", err.Error(), "see the switch's log")
	case found.SameProgram && len(pipeline.Uncompiled()) > 0:
		add(checklist.Unseen, "program", "runs one with our P4Info; ours is not compiled", "compile it, and name its files in the targets file")
	case found.SameProgram:
		add(checklist.Green, "program", fmt.Sprintf("runs ours (cookie %#x), profile %s", pipeline.Cookie(), t.Kind().Name), "")
	case found.None:
		add(checklist.Yellow, "program", "runs none", "the controller pushes it when it starts; --push does it now")
	default:
		add(checklist.Yellow, "program", "runs another: "+found.String(), "the controller replaces it when it starts; --push does it now")
	}
}

// tables checks whether the program has room for the fabric.
func (c *checker) tables(id fabric.NodeID) {
	add := func(l checklist.Light, seen, remedy string) { c.list.Add(l, c.f.Name(id), "tables", seen, remedy) }
	want := c.core.Desired(id)
	if err := c.Daemon.PipelineOf(id).Schema().Fits(want); err != nil {
		add(checklist.Red, err.Error(), c.Daemon.Targets[id].Kind().Program().MoreRoom)
		return
	}
	add(checklist.Green, fmt.Sprintf("%d entries fit", len(want)), "")
}

// primary checks whether our controller could be primary.
func (c *checker) primary(ctx context.Context, id fabric.NodeID, conn *grpc.ClientConn, add addLine) {
	t := c.Daemon.Targets[id]
	ctx, cancel := context.WithTimeout(ctx, c.limit())
	defer cancel()
	w := p4rt.Writer{DeviceID: t.DeviceID, ElectionID: p4rt.ElectionID{Low: 1}.Proto()}
	pipeline := c.Daemon.PipelineOf(id)
	p, err := p4rt.OpenPacketStream(ctx, pipeline.Client(conn), pipeline.Schema(), w, func(p4rt.PacketIn) {})
	switch {
	case err == nil:
		p.Close()
		add(checklist.Green, "primary", "nobody; free for our controller", "")
	case errors.Is(err, p4rt.ErrHeld):
		add(checklist.Red, "primary", strings.TrimPrefix(err.Error(), "p4rt: "), "if it is ours, name its --listen-admin with --admin; if not, stop it: it would overwrite our tables")
	case status.Code(errors.Unwrap(err)) == codes.NotFound:
		add(checklist.Red, "device id", withoutCode(errors.Unwrap(err)), fmt.Sprintf("correct device_id in the targets file (now %d), or start the switch with it", t.DeviceID))
	default:
		add(checklist.Red, "primary", err.Error(), "the switch must take a P4Runtime stream: see its log")
	}
}
