package rpc

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Budget bounds clients' requests to a switch and the state that they store. A request above a limit is refused
// with an error that names the limit and its value. 0 means [DefaultBudget]'s.
type Budget struct {
	Message     int // bytes of one request
	Parts       int // messages and repeated values inside one request
	Requests    int // concurrent RPCs that end when answered, over all connections; each party has a share
	Writes      int // of each party, not counted there: Write, SetForwardingPipelineConfig, gNMI Set, which may be large
	Channels    int // concurrent RPCs that last: StreamChannel, Subscribe, health Watch, reflection; each party has a share
	Streams     int // concurrent RPCs of one connection
	Connections int

	Updates         int // per Write
	RollbackUpdates int // per Write with rollback
	AtomicUpdates   int // per Write that is atomic for packets
	Entities        int // per Read
	Metadata        int // bytes per entry
	AllMetadata     int // bytes stored per pipeline
	Groups          int // multicast groups per pipeline, and clone sessions
	Replicas        int // per group or session
	Roles           int // number remembered
	RoleName        int // bytes
	RoleStreams     int // streams per role
	Details         int // updates of a failed batch that the answer describes singly
	Queued          int // bytes that wait for one stream's reader

	Paths      int // per gNMI request
	PathElems  int // per gNMI path with its prefix
	Leaves     int // values per answer to a gNMI Get
	Value      int // bytes per gNMI value
	SampleRate int // leaves per second that all subscriptions together sample
}

// DefaultBudget returns limits for a switch process of 512 MiB: it can hold Requests and Channels times Message of
// requests that never end, if every party sends as many. Without the primaries' shares that is 320 MiB.
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

// Over returns the error for n above the limit most, naming it.
func Over(name string, n, most int, remedy string) error {
	return Errorf(codes.ResourceExhausted, "%d is over the budget %s of %d; %s", n, name, most, remedy)
}

// maxPrinted bounds the printed part of a value from outside.
const maxPrinted = 32 // bytes

// CutBytes returns a value, or its beginning, as text.
func CutBytes(b []byte) string {
	if len(b) <= maxPrinted {
		return "0x" + hex.EncodeToString(b)
	}
	return fmt.Sprintf("0x%x... (%d bytes)", b[:maxPrinted], len(b))
}

// Cut returns a text from outside, or its beginning.
func Cut(s string) string {
	if len(s) <= 4*maxPrinted {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:4*maxPrinted], len(s))
}
