package p4rt

import (
	"context"
	"errors"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/p4src"
)

// liar is a switch that answers a Read with the same message without end.
type liar struct {
	p4.P4RuntimeClient
	grpc.ClientStream
	answer *p4.ReadResponse
	sent   int
	ended  func() error
}

func (l *liar) Read(ctx context.Context, _ *p4.ReadRequest, _ ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	l.ended = ctx.Err
	return l, nil
}

func (l *liar) Recv() (*p4.ReadResponse, error) { l.sent++; return l.answer, nil }

// TestEndlessRead has switches answer a Read for ever: many entities, large ones, or none.
// The answer is given up, and its stream ended.
func TestEndlessRead(t *testing.T) {
	schema, err := NewSchema(p4src.V1ModelP4Info())
	if err != nil {
		t.Fatal(err)
	}
	many := make([]*p4.Entity, 10_000)
	for i := range many {
		many[i] = &p4.Entity{}
	}
	large := &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{Metadata: make([]byte, 16<<20)}}}
	for name, c := range map[string]struct {
		entities []*p4.Entity
		most     int // messages
	}{"many": {many, maxRead/len(many) + 1}, "large": {[]*p4.Entity{large}, maxReadBytes>>24 + 1}, "none": {nil, maxRead + 1}} {
		l := &liar{answer: &p4.ReadResponse{Entities: c.entities}}
		if _, err := Fetch(t.Context(), l, schema, 1); !errors.Is(err, ErrEndless) {
			t.Errorf("%s: %v", name, err)
		}
		if l.sent > c.most || l.ended() == nil {
			t.Errorf("%s: %d messages were taken, want at most %d; the stream: %v", name, l.sent, c.most, l.ended())
		}
	}
}
