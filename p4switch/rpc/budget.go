package rpc

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Budget limits clients' requests to a switch and the state that they store. A request above a limit is refused with an
// error that names the limit. 0: that of [DefaultBudget].
type Budget struct {
	MessageBytes int // bytes of one request
	MessageParts int // messages and repeated values inside one request
	ShortRPCs    int // concurrent RPCs that end when answered, over all connections; each client has a share
	// concurrent RPCs of each client that may be large, not counted in Requests: Write, SetForwardingPipelineConfig,
	// gNMI Set
	LargeRPCsPerClient int
	// concurrent RPCs that last: StreamChannel, Subscribe, health Watch, reflection; each client has a share
	LastingRPCs       int
	RPCsPerConnection int // concurrent RPCs of one connection
	Connections       int

	UpdatesPerWrite       int // updates per Write
	RollbackUpdates       int // updates per Write with rollback on error
	AtomicUpdates         int // updates per Write that is atomic for packets
	EntitiesPerRead       int // entities per Read
	MetadataBytesPerEntry int // metadata bytes per entry
	MetadataBytes         int // metadata bytes stored per pipeline
	ReplicationGroups     int // multicast groups per pipeline, and clone sessions
	ReplicasPerGroup      int // replicas per multicast group or clone session
	Roles                 int // number of roles remembered
	RoleNameBytes         int // bytes of a role's name
	StreamsPerRole        int // streams per P4Runtime role
	ListedErrors          int // updates of a failed Write whose errors the answer lists
	QueuedBytesPerStream  int // bytes that wait for a slow reader of one stream

	PathsPerRequest        int // paths per gNMI request
	ElemsPerPath           int // elements per gNMI path with its prefix
	LeavesPerGet           int // values per answer to a gNMI Get
	GNMIValueBytes         int // bytes per gNMI value
	SampledLeavesPerSecond int // leaves per second that all subscriptions together sample
}

// DefaultBudget returns limits for a switch process of 512 MiB. If all clients send requests that never end, these take
// at most (Requests + Channels) * Message bytes: 320 MiB, without the shares of primary controllers.
func DefaultBudget() Budget {
	return Budget{
		MessageBytes: 8 << 20, MessageParts: 1 << 18, ShortRPCs: 32, LargeRPCsPerClient: 3, LastingRPCs: 32, RPCsPerConnection: 32, Connections: 64,
		UpdatesPerWrite: 1 << 14, RollbackUpdates: 1 << 10, AtomicUpdates: 1 << 8, EntitiesPerRead: 256, MetadataBytesPerEntry: 4 << 10, MetadataBytes: 16 << 20, ReplicationGroups: 1 << 12, ReplicasPerGroup: 1 << 10,
		Roles: 64, RoleNameBytes: 256, StreamsPerRole: 64, ListedErrors: 1 << 10, QueuedBytesPerStream: 1 << 20,
		PathsPerRequest: 256, ElemsPerPath: 32, LeavesPerGet: 1 << 14, GNMIValueBytes: 1 << 20, SampledLeavesPerSecond: 200_000,
	}
}

// WithDefaults fills in zero values.
func (b Budget) WithDefaults() Budget {
	def := DefaultBudget()
	for _, x := range []struct{ have, def *int }{
		{&b.MessageBytes, &def.MessageBytes}, {&b.MessageParts, &def.MessageParts}, {&b.ShortRPCs, &def.ShortRPCs},
		{&b.LargeRPCsPerClient, &def.LargeRPCsPerClient}, {&b.LastingRPCs, &def.LastingRPCs}, {&b.RPCsPerConnection, &def.RPCsPerConnection}, {&b.Connections, &def.Connections},
		{&b.UpdatesPerWrite, &def.UpdatesPerWrite}, {&b.RollbackUpdates, &def.RollbackUpdates}, {&b.AtomicUpdates, &def.AtomicUpdates},
		{&b.EntitiesPerRead, &def.EntitiesPerRead}, {&b.MetadataBytesPerEntry, &def.MetadataBytesPerEntry}, {&b.MetadataBytes, &def.MetadataBytes},
		{&b.ReplicationGroups, &def.ReplicationGroups}, {&b.ReplicasPerGroup, &def.ReplicasPerGroup}, {&b.Roles, &def.Roles},
		{&b.RoleNameBytes, &def.RoleNameBytes}, {&b.StreamsPerRole, &def.StreamsPerRole}, {&b.ListedErrors, &def.ListedErrors},
		{&b.QueuedBytesPerStream, &def.QueuedBytesPerStream}, {&b.PathsPerRequest, &def.PathsPerRequest}, {&b.ElemsPerPath, &def.ElemsPerPath}, {&b.LeavesPerGet, &def.LeavesPerGet},
		{&b.GNMIValueBytes, &def.GNMIValueBytes}, {&b.SampledLeavesPerSecond, &def.SampledLeavesPerSecond},
	} {
		if *x.have == 0 {
			*x.have = *x.def
		}
	}
	return b
}

// LimitError returns the error that n exceeds the limit most of a request, which name names; remedy says what to do.
func LimitError(name string, n, most int, remedy string) error {
	return Errorf(codes.ResourceExhausted, "%d is over the budget %s of %d; %s", n, name, most, remedy)
}

// maxPrinted bounds the printed part of a value from outside.
const maxPrinted = 32 // maximum number of bytes of a client's text that an error repeats

// ShortenBytes returns a client's bytes as text for an error message, shortened if they are long.
func ShortenBytes(b []byte) string {
	if len(b) <= maxPrinted {
		return "0x" + hex.EncodeToString(b)
	}
	return fmt.Sprintf("0x%x... (%d bytes)", b[:maxPrinted], len(b))
}

// Shorten returns a client's text for an error message, shortened if it is long.
func Shorten(s string) string {
	if len(s) <= 4*maxPrinted {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:4*maxPrinted], len(s))
}
