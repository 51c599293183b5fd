package daemon

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcpeer "google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller/drains"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/fabric/staterpc"
)

// Times between peers.
const (
	peerInterval   = 2 * time.Second // interval between two exchanges of drained links with a peer controller
	peerTimeout    = time.Second     // time limit of one exchange with a peer controller
	peerAckTimeout = ackTimeout + 2*time.Second
)

// peer is another controller of the same switches.
type peer struct {
	addr      string
	conn      *grpc.ClientConn
	attempted bool // at least once; the loop's
	failed    bool // at the last attempt; the loop's
}

// newPeers is called once the daemon is otherwise complete.
func (d *Daemon) newPeers() error {
	for _, addr := range d.cfg.Peers {
		conn, err := d.cfg.DialPeer(addr)
		if err != nil {
			return fmt.Errorf("daemon: peer %s: %w", addr, err)
		}
		d.peers = append(d.peers, &peer{addr: addr, conn: conn})
	}
	return nil
}

// followPeer exchanges marks with a peer until ctx ends.
func (d *Daemon) followPeer(ctx context.Context, p *peer) error {
	t := time.NewTicker(peerInterval)
	defer t.Stop()
	for {
		_, err := d.exchangeDrains(ctx, p, false, nil)
		if err := d.runInLoop(ctx, func() { d.peerTried(p, err) }); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
}

func (d *Daemon) peerTried(p *peer, err error) {
	if failed := err != nil; failed != p.failed || !p.attempted {
		if failed {
			d.cfg.Log.Warn("peer", "addr", p.addr, "err", err)
		} else {
			d.cfg.Log.Info("peer", "addr", p.addr, "state", "agrees on the drains")
		}
		p.failed = failed
	}
	p.attempted = true
	if !slices.ContainsFunc(d.peers, func(p *peer) bool { return !p.attempted }) {
		d.core.PeersKnown(d.clock())
	}
}

// exchangeDrains sends a peer our drained links and merges the peer's. If it names switches, the peer first writes the
// tables that follow, and exchange returns the named switches that have acknowledged them.
func (d *Daemon) exchangeDrains(ctx context.Context, p *peer, wait bool, switches []fabric.NodeID) ([]fabric.NodeID, error) {
	timeout := peerTimeout
	if wait {
		timeout = peerAckTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req := &statepb.DrainMarks{Wait: wait}
	for _, id := range switches {
		req.Switches = append(req.Switches, uint32(id))
	}
	if err := d.runInLoop(ctx, func() { req.Marks = d.drainMarks() }); err != nil {
		return nil, err
	}
	out := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+d.cfg.Token)
	resp, err := staterpc.NewControllersClient(p.conn).Exchange(out, req)
	if err != nil {
		return nil, err
	}
	var failed error
	err = d.runInLoop(ctx, func() { failed = d.mergeDrainMarks(resp) })
	return d.switchesOf(resp), errors.Join(err, failed)
}

// exchangeMarks exchanges drained links with all peers at once. It returns the switches that have acknowledged the
// resulting tables to a peer, and the peers that could not be reached.
func (d *Daemon) exchangeMarks(ctx context.Context, switches []fabric.NodeID) (acknowledged []fabric.NodeID, unreached, err error) {
	type answer struct {
		p        *peer
		switches []fabric.NodeID
		err      error
	}
	answers := make(chan answer, len(d.peers))
	for _, p := range d.peers {
		go func() {
			ids, err := d.exchangeDrains(ctx, p, true, switches)
			answers <- answer{p, ids, err}
		}()
	}
	var failed []error
	for range d.peers {
		a := <-answers
		acknowledged = append(acknowledged, a.switches...)
		if a.err != nil {
			d.cfg.Log.Warn("peer was not notified", "addr", a.p.addr, "err", a.err)
			failed = append(failed, fmt.Errorf("daemon: drained here, but peer %s does not know yet: %w", a.p.addr, a.err))
		}
	}
	return acknowledged, errors.Join(failed...), ctx.Err()
}

// switchesOf returns the switches that a message names.
func (d *Daemon) switchesOf(m *statepb.DrainMarks) (ids []fabric.NodeID) {
	for _, x := range m.GetSwitches() {
		if id := observe.NodeID(x); int(id) >= d.f.Hosts() && int(id) < d.f.Nodes() {
			ids = append(ids, id)
		}
	}
	return ids
}

func (d *Daemon) drainMarks() []*statepb.DrainMark {
	var out []*statepb.DrainMark
	for _, m := range d.core.Marks() {
		out = append(out, &statepb.DrainMark{Link: uint32(m.Link), Drained: m.Drained, Version: m.Version, By: m.By, Forced: m.Forced})
	}
	return out
}

func (d *Daemon) mergeDrainMarks(in *statepb.DrainMarks) error {
	var marks []drains.Mark
	for _, m := range in.GetMarks() {
		marks = append(marks, drains.Mark{
			Link: fabric.LinkID(observe.NodeID(m.GetLink())), Drained: m.GetDrained(), Version: m.GetVersion(), By: m.GetBy(), Forced: m.GetForced(),
		})
	}
	_, err := d.core.Merge(d.clock(), marks)
	return err
}

// peerService answers other controllers.
type peerService struct {
	staterpc.UnimplementedControllersServer
	d *Daemon
}

// PeerService returns the service for other controllers, to be registered with a gRPC server. It refuses callers
// without the token, and all callers if no token is configured.
func (d *Daemon) PeerService() staterpc.ControllersServer { return &peerService{d: d} }

// Exchange implements staterpc.ControllersServer.
func (s *peerService) Exchange(ctx context.Context, in *statepb.DrainMarks) (*statepb.DrainMarks, error) {
	given := ""
	if v := metadata.ValueFromIncomingContext(ctx, "authorization"); len(v) == 1 {
		given = v[0]
	}
	if !s.d.authorized(given, callerOf(ctx)) {
		return nil, status.Error(codes.PermissionDenied, "daemon: peers need the controller's token")
	}
	out := &statepb.DrainMarks{}
	var failed error
	err := s.d.runInLoop(ctx, func() {
		failed = s.d.mergeDrainMarks(in)
		out.Marks = s.d.drainMarks()
	})
	if err = errors.Join(err, failed); err == nil && in.GetWait() {
		out.Switches, err = s.acknowledged(ctx, in)
	}
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return out, nil
}

// acknowledged returns the switches, of those that a request names, that have acknowledged the tables for its drained
// links to this controller.
func (s *peerService) acknowledged(ctx context.Context, in *statepb.DrainMarks) ([]uint32, error) {
	var links []fabric.LinkID
	for _, m := range in.GetMarks() {
		links = append(links, fabric.LinkID(observe.NodeID(m.GetLink())))
	}
	asked := s.d.switchesOf(in)
	behind, err := s.d.waitAcknowledged(ctx, links, asked, ackTimeout, false)
	if err != nil {
		return nil, err
	}
	var out []uint32
	for _, id := range asked {
		if !slices.Contains(behind, id) {
			out = append(out, uint32(id))
		}
	}
	return out, nil
}

// authorized reports whether a caller's "authorization" permits changes. A refusal is counted and logged.
func (d *Daemon) authorized(given, caller string) bool {
	if d.cfg.Token != "" && subtle.ConstantTimeCompare([]byte(given), []byte("Bearer "+d.cfg.Token)) == 1 {
		return true
	}
	d.metrics.badTokens.Inc()
	d.wrongTokens.Warn("a request with a wrong or missing token was refused", "from", caller)
	return false
}

func callerOf(ctx context.Context) string {
	if p, ok := grpcpeer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return "unknown"
}
