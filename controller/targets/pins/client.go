package pins

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Client is a P4Runtime client of a switch that runs SONiC PINS' program sai_p4. It accepts entries of the controller's
// tables and translates them.
type Client struct {
	p4.P4RuntimeClient
	program     *Program
	place       switchPlace
	codec       targets.EntryCodec
	missingRows [][]row // of the foundation, at the last read
	presentKeys map[string]bool
}

// NewClient returns a client that translates calls by name for a switch that runs program, over client.
func NewClient(client p4.P4RuntimeClient, program *Program, at targets.SwitchPlace, words targets.EntryCodec) *Client {
	return &Client{P4RuntimeClient: client, program: program, place: switchPlace{at}, codec: words}
}

var _ p4.P4RuntimeClient = (*Client)(nil)

// Read returns all of the controller's entries in the switch, whatever is requested, and adds the table of label
// carriers with the only content that it can have.
func (c *Client) Read(ctx context.Context, req *p4.ReadRequest, opts ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	rows, err := c.readRows(ctx, req, opts...)
	if err != nil {
		return nil, err
	}
	f := c.place.fromRows(rows)
	c.missingRows, c.presentKeys = f.missingRows, f.presentKeys
	for family := range uint64(2) {
		f.Entries = append(f.Entries, controller.Entry{
			Key: controller.Key{Table: controller.LabelCarrier, Value: controller.Value{Lo: family}}, Action: controller.CarrierUDPSport,
		})
	}
	a := &readyStream{ctx: ctx}
	for _, e := range f.Entries {
		x, err := c.codec.EncodeEntry(e, false)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "pins: %v", err)
		}
		a.resp.Entities = append(a.resp.Entities, x)
	}
	for _, e := range f.Broken {
		x, err := c.codec.EncodeEntry(e, true)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "pins: %v", err)
		}
		// An action without a number is nobody's, so the entry is deleted and written anew.
		x.GetTableEntry().Action = &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{}}}
		a.resp.Entities = append(a.resp.Entities, x)
	}
	return a, nil
}

// readRows reads the tables that the controller writes.
func (c *Client) readRows(ctx context.Context, req *p4.ReadRequest, opts ...grpc.CallOption) ([]row, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends an abandoned stream
	q := &p4.ReadRequest{DeviceId: req.GetDeviceId(), Role: c.program.role}
	for _, n := range requiredTables {
		q.Entities = append(q.Entities, &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{TableId: c.program.tables[n.table].id}}})
	}
	stream, err := c.P4RuntimeClient.Read(ctx, q, opts...)
	if err != nil {
		return nil, err
	}
	var rows []row
	err = targets.ReadEntities(stream, func(es []*p4.Entity) {
		for _, e := range es {
			if x, ok := c.program.decode(e.GetTableEntry()); ok {
				rows = append(rows, x)
			}
		}
	})
	return rows, err
}

// readyStream is a stream with one response that exists already.
type readyStream struct {
	grpc.ClientStream
	ctx  context.Context
	resp p4.ReadResponse
	done bool
}

// Context implements grpc.ClientStream.
func (a *readyStream) Context() context.Context { return a.ctx }

// Recv implements p4.P4Runtime_ReadClient.
func (a *readyStream) Recv() (*p4.ReadResponse, error) {
	if a.done {
		return nil, io.EOF
	}
	a.done = true
	return &a.resp, nil
}

// Write translates each update to one of sai_p4's, so that the switch's errors apply to the caller's updates. It
// first writes the entries of the foundation that the last read found missing.
func (c *Client) Write(ctx context.Context, req *p4.WriteRequest, opts ...grpc.CallOption) (*p4.WriteResponse, error) {
	out := &p4.WriteRequest{DeviceId: req.GetDeviceId(), Role: c.program.role, ElectionId: req.GetElectionId(), Atomicity: req.GetAtomicity()}
	for _, u := range req.GetUpdates() {
		x, err := c.update(u)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "pins: %v", err)
		}
		out.Updates = append(out.Updates, x)
	}
	if err := c.writeFoundation(ctx, out, opts...); err != nil {
		return nil, err
	}
	// Updates of one request need not keep their order, but a group must not be deleted before the routes that lead
	// to it.
	groups := &p4.WriteRequest{DeviceId: out.GetDeviceId(), Role: out.GetRole(), ElectionId: out.GetElectionId(), Atomicity: out.GetAtomicity()}
	out.Updates = slices.DeleteFunc(out.GetUpdates(), func(u *p4.Update) bool {
		last := u.GetType() == p4.Update_DELETE && u.GetEntity().GetTableEntry().GetTableId() == c.program.tables[groupTable].id
		if last {
			groups.Updates = append(groups.Updates, u)
		}
		return last
	})
	var resp *p4.WriteResponse
	for _, part := range []*p4.WriteRequest{out, groups} {
		if len(part.GetUpdates()) == 0 {
			continue
		}
		var err error
		if resp, err = c.P4RuntimeClient.Write(ctx, part, opts...); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

func (c *Client) update(u *p4.Update) (*p4.Update, error) {
	e, keyOnly := u.GetEntity(), u.GetType() == p4.Update_DELETE
	if te := e.GetTableEntry(); keyOnly && te.GetAction() != nil { // its error no longer matters
		e = proto.CloneOf(e)
		e.GetTableEntry().Action = nil
	}
	entry, err := c.codec.Decode(e)
	if err != nil {
		return nil, err
	}
	r, err := c.place.toRow(entry, keyOnly)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", entry, err)
	}
	return &p4.Update{Type: u.GetType(), Entity: c.program.encode(&r, keyOnly)}, nil
}

// writeFoundation writes the missing entries of the foundation, one request per part, because a request need not keep
// the order of its updates.
func (c *Client) writeFoundation(ctx context.Context, as *p4.WriteRequest, opts ...grpc.CallOption) error {
	for len(c.missingRows) > 0 {
		req := &p4.WriteRequest{DeviceId: as.GetDeviceId(), Role: as.GetRole(), ElectionId: as.GetElectionId(), Atomicity: as.GetAtomicity()}
		for i := range c.missingRows[0] {
			r := &c.missingRows[0][i]
			u := &p4.Update{Type: p4.Update_INSERT, Entity: c.program.encode(r, false)}
			if c.presentKeys[r.key()] {
				u.Type = p4.Update_MODIFY
			}
			req.Updates = append(req.Updates, u)
		}
		if len(req.GetUpdates()) > 0 {
			if _, err := c.P4RuntimeClient.Write(ctx, req, opts...); err != nil {
				return fmt.Errorf("pins: %s, on which the tables rest: %w", strings.TrimSuffix(c.missingRows[0][0].table, "_table"), err)
			}
		}
		c.missingRows = c.missingRows[1:]
	}
	return nil
}

// SetForwardingPipelineConfig implements p4.P4RuntimeClient.
func (c *Client) SetForwardingPipelineConfig(ctx context.Context, req *p4.SetForwardingPipelineConfigRequest, opts ...grpc.CallOption) (*p4.SetForwardingPipelineConfigResponse, error) {
	req = proto.CloneOf(req)
	req.Role = c.program.role
	return c.P4RuntimeClient.SetForwardingPipelineConfig(ctx, req, opts...)
}

// StreamChannel implements p4.P4RuntimeClient.
func (c *Client) StreamChannel(ctx context.Context, opts ...grpc.CallOption) (p4.P4Runtime_StreamChannelClient, error) {
	s, err := c.P4RuntimeClient.StreamChannel(ctx, opts...)
	if err != nil {
		return nil, err
	}
	return &roleStream{P4Runtime_StreamChannelClient: s, role: c.program.role}, nil
}

// roleStream is a stream that bids for a role.
type roleStream struct {
	p4.P4Runtime_StreamChannelClient
	role string
}

// Send implements p4.P4Runtime_StreamChannelClient.
func (s *roleStream) Send(m *p4.StreamMessageRequest) error {
	if a := m.GetArbitration(); a != nil && s.role != "" {
		m = proto.CloneOf(m)
		m.GetArbitration().Role = &p4.Role{Name: s.role}
	}
	return s.P4Runtime_StreamChannelClient.Send(m)
}
