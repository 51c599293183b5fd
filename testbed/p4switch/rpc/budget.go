package rpc

import (
	"encoding/hex"
	"fmt"
	"strings"

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
		Paths: 256, PathElems: 32, Value: 1 << 20, SampleRate: 200_000,
	}
}

// A bound is a budget's line: its name in errors, and what it bounds.
type bound struct {
	name, what string
	of         func(*Budget) *int
}

var bounds = []bound{
	{"message", "bytes of one request", func(b *Budget) *int { return &b.Message }},
	{"parts", "messages and repeated values in one request", func(b *Budget) *int { return &b.Parts }},
	{"requests", "RPCs at a time", func(b *Budget) *int { return &b.Requests }},
	{"writes", "Write, SetForwardingPipelineConfig and gNMI Set at a time", func(b *Budget) *int { return &b.Writes }},
	{"streams", "RPCs at a time of one connection", func(b *Budget) *int { return &b.Streams }},
	{"connections", "connections at a time", func(b *Budget) *int { return &b.Connections }},
	{"updates", "updates of one Write", func(b *Budget) *int { return &b.Updates }},
	{"rollback-updates", "updates of one ROLLBACK_ON_ERROR Write", func(b *Budget) *int { return &b.RollbackUpdates }},
	{"atomic-updates", "updates of one DATAPLANE_ATOMIC Write", func(b *Budget) *int { return &b.AtomicUpdates }},
	{"entities", "entities of one Read", func(b *Budget) *int { return &b.Entities }},
	{"metadata", "bytes of one entry's metadata", func(b *Budget) *int { return &b.Metadata }},
	{"all-metadata", "bytes of metadata that a pipeline keeps", func(b *Budget) *int { return &b.AllMetadata }},
	{"groups", "multicast groups that a pipeline keeps, and clone sessions", func(b *Budget) *int { return &b.Groups }},
	{"replicas", "replicas of one of them, with backups", func(b *Budget) *int { return &b.Replicas }},
	{"roles", "roles that have streams", func(b *Budget) *int { return &b.Roles }},
	{"role-name", "bytes of a role's name", func(b *Budget) *int { return &b.RoleName }},
	{"role-streams", "streams of one role", func(b *Budget) *int { return &b.RoleStreams }},
	{"details", "updates that the answer to a failed batch describes one by one", func(b *Budget) *int { return &b.Details }},
	{"queued", "bytes that wait for the reader of one stream", func(b *Budget) *int { return &b.Queued }},
	{"paths", "paths of one gNMI request", func(b *Budget) *int { return &b.Paths }},
	{"path-elements", "elements of one gNMI path with its prefix", func(b *Budget) *int { return &b.PathElems }},
	{"value", "bytes of one gNMI value", func(b *Budget) *int { return &b.Value }},
	{"sample-rate", "leaves a second that all gNMI subscriptions together sample", func(b *Budget) *int { return &b.SampleRate }},
}

// WithDefaults fills what is 0.
func (b Budget) WithDefaults() Budget {
	def := DefaultBudget()
	for _, x := range bounds {
		if *x.of(&b) == 0 {
			*x.of(&b) = *x.of(&def)
		}
	}
	return b
}

// Table is the budget as a table in Markdown, for the documentation.
func (b Budget) Table() string {
	var t strings.Builder
	t.WriteString("| bound | most | of what |\n|---|---:|---|\n")
	for _, x := range bounds {
		fmt.Fprintf(&t, "| %s | %d | %s |\n", x.name, *x.of(&b), x.what)
	}
	return t.String()
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
