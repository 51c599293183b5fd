package rpc

import (
	"encoding/hex"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Budget bounds what clients may ask of a switch and leave with it. A request
// beyond a bound is refused with an error that names the bound and its number.
// A bound of 0 is [DefaultBudget]'s.
type Budget struct {
	Message     int // bytes of one request
	Parts       int // messages and repeated values inside one request
	Requests    int // RPCs at a time, over all connections
	Writes      int // of them, requests that may be large: Write, SetForwardingPipelineConfig, gNMI Set
	Streams     int // RPCs at a time of one connection
	Connections int

	Updates         int // of one Write
	RollbackUpdates int // of one Write that is undone when one fails
	AtomicUpdates   int // of one Write that no packet may see half done
	Entities        int // of one Read
	Metadata        int // bytes of one entry's metadata
	AllMetadata     int // bytes of metadata that a pipeline keeps
	Groups          int // multicast groups that a pipeline keeps, and clone sessions
	Replicas        int // of one of them
	Roles           int // that are remembered
	RoleName        int // bytes
	RoleStreams     int // streams of one role
	Details         int // of a failed batch: updates that the answer describes one by one
	Queued          int // bytes that wait for one stream's reader

	Paths      int // of one gNMI request
	PathElems  int // of one gNMI path with its prefix
	Leaves     int // values in one answer to a gNMI Get
	Value      int // bytes of one gNMI value
	SampleRate int // leaves a second that all subscriptions together sample
}

// DefaultBudget is for a switch process of 512 MiB: it holds Requests times Message of
// requests that nobody ends.
func DefaultBudget() Budget {
	return Budget{
		Message: 8 << 20, Parts: 1 << 18, Requests: 32, Writes: 4, Streams: 32, Connections: 64,
		Updates: 1 << 14, RollbackUpdates: 1 << 10, AtomicUpdates: 1 << 8, Entities: 256, Metadata: 4 << 10, AllMetadata: 16 << 20, Groups: 1 << 12, Replicas: 1 << 10,
		Roles: 64, RoleName: 256, RoleStreams: 64, Details: 1 << 10, Queued: 1 << 20,
		Paths: 256, PathElems: 32, Leaves: 1 << 14, Value: 1 << 20, SampleRate: 200_000,
	}
}

// WithDefaults fills what is 0.
func (b Budget) WithDefaults() Budget {
	def := DefaultBudget()
	for _, x := range []struct{ have, def *int }{
		{&b.Message, &def.Message}, {&b.Parts, &def.Parts}, {&b.Requests, &def.Requests},
		{&b.Writes, &def.Writes}, {&b.Streams, &def.Streams}, {&b.Connections, &def.Connections},
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

// Over refuses n of something whose bound is named.
func Over(name string, n, most int, remedy string) error {
	return Errorf(codes.ResourceExhausted, "%d is over the budget %s of %d; %s", n, name, most, remedy)
}

// maxPrinted bounds what is printed of a value that came from outside.
const maxPrinted = 32 // bytes

// CutBytes prints a value, or its beginning.
func CutBytes(b []byte) string {
	if len(b) <= maxPrinted {
		return "0x" + hex.EncodeToString(b)
	}
	return fmt.Sprintf("0x%x... (%d bytes)", b[:maxPrinted], len(b))
}

// Cut is a text from outside, or its beginning.
func Cut(s string) string {
	if len(s) <= 4*maxPrinted {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:4*maxPrinted], len(s))
}
