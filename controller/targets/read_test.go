package targets

import (
	"errors"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
)

// liar is a switch that answers a Read with the same message without end.
type liar struct {
	grpc.ClientStream
	answer *p4.ReadResponse
	sent   int
}

func (l *liar) Recv() (*p4.ReadResponse, error) { l.sent++; return l.answer, nil }

// TestEndlessRead has switches answer a Read for ever: many entities, large ones, or none. The answer is given up.
func TestEndlessRead(t *testing.T) {
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
		taken := 0
		if err := ReadEntities(l, func(es []*p4.Entity) { taken += len(es) }); !errors.Is(err, ErrEndless) {
			t.Errorf("%s: %v", name, err)
		}
		if l.sent > c.most || taken > maxRead {
			t.Errorf("%s: %d messages and %d entities were taken, want at most %d and %d", name, l.sent, taken, c.most, maxRead)
		}
	}
}
