package rpc

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Budget limits clients' requests to a switch and the state that they store. A request above a limit is refused with an
// error that names the limit. 0: that of [DefaultBudget].
type Budget struct {
	Message  int // bytes of one request
	Parts    int // messages and repeated values inside one request
	Requests int // concurrent RPCs that end when answered, over all connections; each client has a share
	// concurrent RPCs of each client that may be large, not counted in Requests: Write, SetForwardingPipelineConfig,
	// gNMI Set
	Writes int
	// concurrent RPCs that last: StreamChannel, Subscribe, health Watch, reflection; each client has a share
	Channels    int
	Streams     int // concurrent RPCs of one connection
	Connections int

	Updates         int // updates per Write
	RollbackUpdates int // updates per Write with rollback on error
	AtomicUpdates   int // updates per Write that is atomic for packets
	Entities        int // entities per Read
	Metadata        int // metadata bytes per entry
	AllMetadata     int // metadata bytes stored per pipeline
	Groups          int // multicast groups per pipeline, and clone sessions
	Replicas        int // replicas per multicast group or clone session
	Roles           int // number of roles remembered
	RoleName        int // bytes of a role's name
	RoleStreams     int // streams per P4Runtime role
	Details         int // updates of a failed Write whose errors the answer lists
	Queued          int // bytes that wait for a slow reader of one stream

	Paths      int // paths per gNMI request
	PathElems  int // elements per gNMI path with its prefix
	Leaves     int // values per answer to a gNMI Get
	Value      int // bytes per gNMI value
	SampleRate int // leaves per second that all subscriptions together sample
}

// DefaultBudget returns limits for a switch process of 512 MiB. If all clients send requests that never end, these take
// at most (Requests + Channels) * Message bytes: 320 MiB, without the shares of primary controllers.
func DefaultBudget() Budget {
	return Budget{
		Message: 8 << 20, Parts: 1 << 18, Requests: 32, Writes: 3, Channels: 32, Streams: 32, Connections: 64,
		Updates: 1 << 14, RollbackUpdates: 1 << 10, AtomicUpdates: 1 << 8, Entities: 256, Metadata: 4 << 10, AllMetadata: 16 << 20, Groups: 1 << 12, Replicas: 1 << 10,
		Roles: 64, RoleName: 256, RoleStreams: 64, Details: 1 << 10, Queued: 1 << 20,
		Paths: 256, PathElems: 32, Leaves: 1 << 14, Value: 1 << 20, SampleRate: 200_000,
	}
}

// WithDefaults fills in zero values.
func (b Budget) WithDefaults() Budget {
	def := DefaultBudget()
	for _, x := range []struct{ have, def *int }{
		{&b.Message, &def.Message}, {&b.Parts, &def.Parts}, {&b.Requests, &def.Requests},
		{&b.Writes, &def.Writes}, {&b.Channels, &def.Channels}, {&b.Streams, &def.Streams}, {&b.Connections, &def.Connections},
		{&b.Updates, &def.Updates}, {&b.RollbackUpdates, &def.RollbackUpdates}, {&b.AtomicUpdates, &def.AtomicUpdates},
		{&b.Entities, &def.Entities}, {&b.Metadata, &def.Metadata}, {&b.AllMetadata, &def.AllMetadata},
		{&b.Groups, &def.Groups}, {&b.Replicas, &def.Replicas}, {&b.Roles, &def.Roles},
		{&b.RoleName, &def.RoleName}, {&b.RoleStreams, &def.RoleStreams}, {&b.Details, &def.Details},
		{&b.Queued, &def.Queued}, {&b.Paths, &def.Paths}, {&b.PathElems, &def.PathElems}, {&b.Leaves, &def.Leaves},
		{&b.Value, &def.Value}, {&b.SampleRate, &def.SampleRate},
	} {
		if *x.have == 0 {
			*x.have = *x.def
		}
	}
	return b
}

// Over returns the error that n exceeds the limit most of a request, which name names; remedy says what to do.
func Over(name string, n, most int, remedy string) error {
	return Errorf(codes.ResourceExhausted, "%d is over the budget %s of %d; %s", n, name, most, remedy)
}

// maxPrinted bounds the printed part of a value from outside.
const maxPrinted = 32 // maximum number of bytes of a client's text that an error repeats

// CutBytes returns a client's bytes as text for an error message, shortened if they are long.
func CutBytes(b []byte) string {
	if len(b) <= maxPrinted {
		return "0x" + hex.EncodeToString(b)
	}
	return fmt.Sprintf("0x%x... (%d bytes)", b[:maxPrinted], len(b))
}

// Cut returns a client's text for an error message, shortened if it is long.
func Cut(s string) string {
	if len(s) <= 4*maxPrinted {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:4*maxPrinted], len(s))
}
