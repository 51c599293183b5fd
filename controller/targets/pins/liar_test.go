package pins

import (
	"context"
	"errors"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// liar is a switch that answers reads with lies about what it holds.
type liar struct {
	*chip
	lie func([]*p4.Entity) []*p4.Entity // nil: the truth
}

func (l *liar) Read(ctx context.Context, req *p4.ReadRequest, opts ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	s, err := l.chip.Read(ctx, req, opts...)
	if err == nil && l.lie != nil {
		a := s.(*readyStream)
		a.resp.Entities = l.lie(a.resp.GetEntities())
	}
	return s, err
}

// TestLyingRead has a switch leave out what it holds, say it twice, or garble it. The controller's repair is bounded by
// what was said and what is wanted, and is refused or carried out by the switch's own rules; the first reads that are
// true put all right, whatever was made of the lies. The foundation is a part of what is lied about.
func TestLyingRead(t *testing.T) {
	c := newCore(t, specs[0])
	f := c.Fabric()
	id := f.ToRID(0)
	want := c.Desired(id)
	rapid.Check(t, func(rt *rapid.T) {
		l := newLab(t, targets.SwitchPlace{Fabric: f, Switch: id})
		l.bring(rt, want)
		s := &liar{chip: l.chip}
		l.client.P4RuntimeClient = s
		for range rapid.IntRange(1, 3).Draw(rt, "lies") {
			answered := 0
			s.lie = func(truth []*p4.Entity) (out []*p4.Entity) {
				for _, e := range truth {
					switch rapid.IntRange(0, 9).Draw(rt, "lie") {
					case 0: // left out
					case 1:
						out = append(out, e, e)
					case 2:
						out = append(out, truth[rapid.IntRange(0, len(truth)-1).Draw(rt, "other")])
					case 3:
						wire, err := proto.Marshal(e)
						if err != nil {
							rt.Fatal(err)
						}
						wire[rapid.IntRange(0, len(wire)-1).Draw(rt, "byte")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
						if x := (&p4.Entity{}); proto.Unmarshal(wire, x) == nil {
							out = append(out, x)
						}
					default:
						out = append(out, e)
					}
				}
				answered = len(out)
				return out
			}
			have, err := p4rt.Fetch(rt.Context(), l.client, l.schema, 1)
			if err != nil {
				continue // it is said, and the switch is read again
			}
			updates := controller.Diff(have.Entries, l.schema.ExpectedEntries(want))
			if most := answered + len(want) + 64; len(updates)+len(have.Stray) > most {
				rt.Fatalf("%d updates and %d strays of %d entries answered and %d wanted", len(updates), len(have.Stray), answered, len(want))
			}
			l.write(rt, have.Stray, updates)
		}
		s.lie = nil
		l.bring(rt, want)
		if u, n := l.bring(rt, want); u+n > 0 {
			rt.Fatalf("%d updates and %d strays of a switch that is as it should be", u, n)
		}
	})
}

// write has the switch carry out a repair, as far as it does: what it refuses ends it, as it ends a session.
func (l *lab) write(t *rapid.T, strays []*p4.Entity, updates []controller.Update) {
	ctx := t.Context()
	if len(strays) > 0 {
		if _, err := l.client.Write(ctx, p4rt.DeleteRequest(p4rt.Writer{DeviceID: 1}, strays)); err != nil {
			return
		}
	}
	batches, err := l.schema.WriteRequests(p4rt.Writer{DeviceID: 1}, updates)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if _, err := l.client.Write(ctx, b.Request); err != nil {
			return
		}
	}
}

// endless answers reads with messages that say nothing.
type endless struct {
	p4.P4RuntimeClient
	grpc.ClientStream
	ended func() error
}

func (e *endless) Read(ctx context.Context, _ *p4.ReadRequest, _ ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	e.ended = ctx.Err
	return e, nil
}
func (*endless) Recv() (*p4.ReadResponse, error) { return &p4.ReadResponse{}, nil }

// TestEndlessRead: an answer without end is given up, and its stream ended.
func TestEndlessRead(t *testing.T) {
	l := newLab(t, targets.SwitchPlace{Fabric: newCore(t, specs[0]).Fabric(), Switch: 16})
	e := &endless{}
	l.client.P4RuntimeClient = e
	if _, err := p4rt.Fetch(t.Context(), l.client, l.schema, 1); !errors.Is(err, targets.ErrEndless) || e.ended() == nil {
		t.Errorf("%v; the stream: %v", err, e.ended())
	}
}
