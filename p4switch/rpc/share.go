package rpc

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

// party is a group of clients with a share of a server's budget for RPCs in progress, which other groups cannot use up.
type party string

// The parties: the connection of the default P4Runtime role's primary, those of the other roles' primaries, and the
// other connections by the role of their certificate; without one, they are anonymous.
const (
	primary     party = "the primary controller"
	rolePrimary party = "primaries of P4Runtime roles"
	anonymous   party = "clients without a role"
	ofRole            = "role "
)

// budgetShares are the parties' shares of the budgets Requests and Channels, in sixteenths.
var budgetShares = map[party]int{
	primary: 4, rolePrimary: 2, anonymous: 10,
	ofRole + "controller": 3, ofRole + "operator": 3, ofRole + "host": 2, ofRole + "switch": 2,
}

// partyOf returns the party of a connection that is no primary's, by its certificate's role; other names than the
// table's, and none, are anonymous.
func partyOf(role string) party {
	if p := party(ofRole + role); budgetShares[p] > 0 {
		return p
	}
	return anonymous
}

// rpcKind is a kind of RPCs.
type rpcKind int

const (
	request rpcKind = iota // an RPC that ends when it is answered
	write                  // an RPC of a request that may be large, such as Write
	channel                // lasts as long as the client wants
	rpcKinds
)

var kindOf = map[string]rpcKind{
	"/p4.v1.P4Runtime/Write":                       write,
	"/p4.v1.P4Runtime/SetForwardingPipelineConfig": write,
	"/gnmi.gNMI/Set":                               write,

	"/p4.v1.P4Runtime/StreamChannel":                                 channel,
	"/gnmi.gNMI/Subscribe":                                           channel,
	"/grpc.health.v1.Health/Watch":                                   channel,
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      channel,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": channel,
}

// IsLongLived reports whether an RPC, by its full gRPC method name, is one that lasts, and so counts against
// [Budget].LastingRPCs.
func IsLongLived(method string) bool { return kindOf[method] == channel }

// partyUse is a party's number of RPCs in progress, by kind.
type partyUse [rpcKinds]int

// checkShare returns an error if n RPCs of a kind are more than a party's share.
func (b Budget) checkShare(p party, k rpcKind, n int) error {
	share := func(n int) int { return max(1, (n*budgetShares[p]+15)/16) }
	name, most, remedy := "requests", share(b.ShortRPCs), "wait for answers"
	switch k {
	case write:
		name, most = "writes", b.LargeRPCsPerClient
	case channel:
		name, most, remedy = "channels", share(b.LastingRPCs), "end one first"
	}
	if n <= most {
		return nil
	}
	return LimitError(fmt.Sprintf("%s of %s", name, p), n, most, remedy)
}

// rpcAdmission admits a server's RPCs and counts those in progress.
type rpcAdmission struct {
	budget Budget
	role   func(context.Context) string // of a connection's certificate; nil: none

	mu    sync.Mutex
	used  map[party]*partyUse
	conns map[*peer.Peer]*clientConnection // with RPCs in progress, or ranks
}

// clientConnection is a connection with RPCs in progress.
type clientConnection struct {
	party party         // by its certificate
	ranks map[party]int // its streams that are a primary's
	used  partyUse
}

// chargedParty returns the party that a connection's RPCs count for.
func (c *clientConnection) chargedParty() party {
	for _, p := range []party{primary, rolePrimary} {
		if c.ranks[p] > 0 {
			return p
		}
	}
	return c.party
}

func newRPCAdmission(b Budget, role func(context.Context) string) *rpcAdmission {
	if role == nil {
		role = func(context.Context) string { return "" }
	}
	d := &rpcAdmission{budget: b, role: role, used: map[party]*partyUse{}, conns: map[*peer.Peer]*clientConnection{}}
	for p := range budgetShares {
		d.used[p] = &partyUse{}
	}
	return d
}

// activeRPC is an RPC in progress.
type activeRPC struct {
	d     *rpcAdmission
	at    *peer.Peer // of the connection: the server makes one per connection
	party party      // of the connection, by its certificate
	kind  rpcKind
	leave func()
}

// callKey is the context key of a call.
type callKey struct{}

// admitRPC admits an RPC, before its first message is read, until its stream ends.
func (d *rpcAdmission) admitRPC(ctx context.Context, info *tap.Info) (context.Context, error) {
	at, _ := peer.FromContext(ctx)
	x := &activeRPC{d: d, at: at, party: partyOf(d.role(ctx)), kind: kindOf[info.FullMethodName]}
	if err := x.beginRPC(); err != nil {
		return nil, Status(err)
	}
	x.leave = sync.OnceFunc(x.endRPC)
	context.AfterFunc(ctx, x.leave)
	return context.WithValue(ctx, callKey{}, x), nil
}

func (x *activeRPC) beginRPC() error {
	d := x.d
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.conns[x.at]
	if c == nil {
		c = &clientConnection{party: x.party, ranks: map[party]int{}}
	}
	u := d.used[c.chargedParty()]
	if err := d.budget.checkShare(c.chargedParty(), x.kind, u[x.kind]+1); err != nil {
		return err
	}
	d.conns[x.at] = c
	c.used[x.kind]++
	u[x.kind]++
	return nil
}

// endRPC is called once an RPC no longer counts.
func (x *activeRPC) endRPC() {
	d := x.d
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.conns[x.at]
	c.used[x.kind]--
	d.used[c.chargedParty()][x.kind]--
	d.forgetConnection(x.at)
}

// forgetConnection forgets a connection without RPCs and ranks.
func (d *rpcAdmission) forgetConnection(at *peer.Peer) {
	if c := d.conns[at]; c.used == (partyUse{}) && c.ranks[primary] == 0 && c.ranks[rolePrimary] == 0 {
		delete(d.conns, at)
	}
}

// RecordPrimary records that a P4Runtime stream, given by its context, became the primary of a role or stopped being
// it. RPCs on a primary's connection have a share of the budget that no other client can use.
func RecordPrimary(ctx context.Context, defaultRole, isPrimary bool) {
	x, ok := ctx.Value(callKey{}).(*activeRPC)
	if !ok {
		return // the server has no door
	}
	rank, n := rolePrimary, -1
	if defaultRole {
		rank = primary
	}
	if isPrimary {
		n = 1
	}
	d := x.d
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.conns[x.at]
	if c == nil { // the stream has ended, and its handler has not noticed
		c = &clientConnection{party: x.party, ranks: map[party]int{}}
		d.conns[x.at] = c
	}
	before := c.chargedParty()
	c.ranks[rank] += n
	if after := c.chargedParty(); after != before {
		for k := range c.used {
			d.used[before][k] -= c.used[k]
			d.used[after][k] += c.used[k]
		}
	}
	d.forgetConnection(x.at)
}
