package p4runtime

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// names reports whether an error names a bound and its number.
func names(t *testing.T, err error, name string, most int) {
	t.Helper()
	if want := fmt.Sprintf("over the budget %s of %d", name, most); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", rpc.Shorten(fmt.Sprint(err)), want)
	}
	if err != nil && len(err.Error()) > 4096 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

func TestBudgets(t *testing.T) {
	def := rpc.DefaultBudget()
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		one := insert(t, macEntry)
		many := make([]*p4.Update, def.UpdatesPerWrite+1)
		for i := range many {
			many[i] = one
		}
		for name, c := range map[string]struct {
			how  p4.WriteRequest_Atomicity
			most int
		}{
			"updates":          {p4.WriteRequest_CONTINUE_ON_ERROR, def.UpdatesPerWrite},
			"rollback-updates": {p4.WriteRequest_ROLLBACK_ON_ERROR, def.RollbackUpdates},
			"atomic-updates":   {p4.WriteRequest_DATAPLANE_ATOMIC, def.AtomicUpdates},
		} {
			names(t, d.write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Atomicity: c.how, Updates: many[:c.most+1]}), name, c.most)
		}
		_, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: make([]*p4.Entity, def.EntitiesPerRead+1)})
		if d.p4rt == nil { // nil elements do not travel
			names(t, err, "entities", def.EntitiesPerRead)
		}
		u := insert(t, macEntry)
		u.GetEntity().GetTableEntry().Metadata = make([]byte, def.MetadataBytesPerEntry+1)
		names(t, d.write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Updates: []*p4.Update{u}}), "metadata", def.MetadataBytesPerEntry)
		s := d.open()
		s.send(arbitration(testDevice, strings.Repeat("r", def.RoleNameBytes+1), id(1)))
		_, err = s.recv()
		names(t, err, "role-name", def.RoleNameBytes)
	})
}

// Metadata that a pipeline keeps is counted through inserts, changes, deletes and
// what is undone.
func TestMetadataIsCounted(t *testing.T) {
	d := newDevice(t, func(c *Config) { c.Budget = rpc.Budget{MetadataBytesPerEntry: 100, MetadataBytes: 150} })
	d.ready()
	with := func(typ p4.Update_Type, key byte, n int) *p4.Update {
		u := insert(t, macEntry)
		u.Type = typ
		u.GetEntity().GetTableEntry().GetMatch()[0].GetExact().Value = []byte{key}
		u.GetEntity().GetTableEntry().Metadata = make([]byte, n)
		return u
	}
	write := func(us ...*p4.Update) error {
		return d.core.Write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Atomicity: p4.WriteRequest_ROLLBACK_ON_ERROR, Updates: us})
	}
	if err := write(with(p4.Update_INSERT, 1, 100)); err != nil {
		t.Fatal(err)
	}
	names(t, write(with(p4.Update_INSERT, 2, 50), with(p4.Update_INSERT, 3, 1)), "all-metadata", 150)
	if err := write(with(p4.Update_MODIFY, 1, 10), with(p4.Update_INSERT, 2, 100)); err != nil {
		t.Error(err)
	}
	if err := write(with(p4.Update_DELETE, 1, 0), with(p4.Update_DELETE, 2, 0)); err != nil {
		t.Error(err)
	}
	if got := d.core.live.metadata; got != 0 {
		t.Errorf("%d bytes are counted of no entries", got)
	}
}

// Roles whose streams are gone are forgotten, but for as many as the budget says,
// and the default role's election never.
func TestClosedStreamsForgetTheirRoles(t *testing.T) {
	d := newDevice(t, func(c *Config) { c.Budget.Roles = 4 })
	d.primary().finish()
	for i := range 1000 {
		s := d.open()
		s.send(arbitration(testDevice, fmt.Sprintf("%0200d", i), id(9)))
		wants(t, "election", s.received(), codes.OK)
		s.finish()
	}
	if n, m := len(d.core.roles), len(d.core.roleList); n != 4 || m != 4 {
		t.Errorf("%d roles are remembered, %d in the list; want 4", n, m)
	}
	s := d.open()
	if got := s.bid(nil); got != codes.NotFound {
		t.Errorf("a backup of the default role received %v", got)
	}
	var open []*session
	for i := range 3 {
		s := d.open()
		s.send(arbitration(testDevice, fmt.Sprint("live", i), id(1)))
		wants(t, "election", s.received(), codes.OK)
		open = append(open, s)
	}
	s = d.open()
	s.send(arbitration(testDevice, "one too many", id(1)))
	_, err := s.recv()
	names(t, err, "roles", 4)
	for _, s := range open {
		s.finish()
	}
}

// A failed batch is described within what a client's header limit lets through.
func TestFailedBatchFitsATrailer(t *testing.T) {
	d := newDevice(t, nil).overTCP()
	d.ready()
	bad := insert(t, macEntry)
	bad.GetEntity().GetTableEntry().TableId = 0xffffff
	req := &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}}
	for range 10_000 {
		req.Updates = append(req.Updates, bad)
	}
	err := d.write(req)
	st, _ := status.FromError(err)
	if st.Code() != codes.Unknown || !strings.Contains(st.Message(), "10000 of 10000 updates failed (the first 1024 are described") {
		t.Errorf("%v", rpc.Shorten(fmt.Sprint(err)))
	}
	if n := len(st.Details()); n != 1024 {
		t.Errorf("%d details", n)
	}
	if n := proto.Size(st.Proto()); n > 128<<10 {
		t.Errorf("the status has %d bytes", n)
	}
	if len(st.Details()) != 1024 {
		return
	}
	if e := st.Details()[1000].(*p4.Error); e.GetCanonicalCode() != int32(codes.InvalidArgument) {
		t.Errorf("detail 1000 is %v", e)
	}
}

// What is printed of a value is its beginning.
func TestValuesAreCutWhenPrinted(t *testing.T) {
	d := newDevice(t, nil)
	d.ready()
	u := insert(t, macEntry)
	u.GetEntity().GetTableEntry().GetMatch()[0].GetExact().Value = bytes.Repeat([]byte{1}, 10<<20)
	err := d.core.Write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Updates: []*p4.Update{u}})
	if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "(10485760 bytes)") {
		t.Errorf("an error of %d bytes: %v", len(err.Error()), rpc.Shorten(err.Error()))
	}
}

// bigTable is a switch with one LPM table of a million entries, and a function
// that makes updates of it.
func bigTable(t *testing.T) (*Core, func(p4.Update_Type, []byte) *p4.Update) {
	t.Helper()
	cfg := routes(t)
	core, err := New(Config{DeviceID: testDevice, Now: func() int64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.Install(cfg); err != nil {
		t.Fatal(err)
	}
	if err := core.OpenStream(func(*p4.StreamMessageResponse) error { return nil }).Recv(arbitration(testDevice, "", id(1))); err != nil {
		t.Fatal(err)
	}
	var action uint32
	for _, a := range cfg.GetP4Info().GetActions() {
		if a.GetPreamble().GetAlias() == "forward" {
			action = a.GetPreamble().GetId()
		}
	}
	return core, func(typ p4.Update_Type, value []byte) *p4.Update {
		return &p4.Update{Type: typ, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
			TableId: cfg.GetP4Info().GetTables()[0].GetPreamble().GetId(),
			Match:   []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: value, PrefixLen: 32}}}},
			Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{ActionId: action,
				Params: []*p4.Action_Param{{ParamId: 1, Value: []byte{2}}}}}},
		}}}}
	}
}

func mustWrite(t *testing.T, core *Core, u *p4.Update) {
	t.Helper()
	if err := core.Write(&p4.WriteRequest{DeviceId: testDevice, ElectionId: id(1), Updates: []*p4.Update{u}}); err != nil {
		t.Fatal(err)
	}
}

// An entry keeps its value, not the leading zeros that it came with.
func TestEntriesDoNotKeepRequests(t *testing.T) {
	core, update := bigTable(t)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 20 {
		v := make([]byte, 1<<20)
		v[len(v)-1] = byte(i + 1)
		mustWrite(t, core, update(p4.Update_INSERT, v))
	}
	if kept := int64(heap()) - int64(before); kept > 4<<20 {
		t.Errorf("20 entries keep %d bytes", kept)
	}
	runtime.KeepAlive(core)
}

// A Read whose answer nobody reads holds nobody up and keeps a page in memory.
func TestSlowReaders(t *testing.T) {
	d := newDevice(t, func(c *Config) { c.Load = nil }).overTCP()
	d.ready()
	for range 8 { // the primary's share
		stream, err := d.p4rt.Read(t.Context(), &p4.ReadRequest{DeviceId: testDevice,
			Entities: slicesRepeat(entity(t, `counter_entry {}`), 200)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := d.p4rt.Write(ctx, &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Updates: []*p4.Update{insert(t, macEntry)}}); err != nil {
		t.Error(err)
	}
}

func slicesRepeat(e *p4.Entity, n int) []*p4.Entity {
	out := make([]*p4.Entity, n)
	for i := range out {
		out[i] = e
	}
	return out
}

// While a Read is sent, entries come and go: what stays is read exactly once.
func TestReadWhileEntriesChange(t *testing.T) {
	core, update := bigTable(t)
	key := func(i int) []byte { return []byte{byte(i>>8 + 1), byte(i)} }
	const n = 900
	for i := range n {
		mustWrite(t, core, update(p4.Update_INSERT, key(i)))
	}
	seen := map[string]int{}
	page := 0
	err := core.Read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{entity(t, `table_entry { counter_data {} }`)}},
		func(r *p4.ReadResponse) error {
			for _, e := range r.GetEntities() {
				seen[string(e.GetTableEntry().GetMatch()[0].GetLpm().GetValue())]++
			}
			if page++; page == 1 { // odd ones go, others come
				for i := 1; i < n; i += 2 {
					mustWrite(t, core, update(p4.Update_DELETE, key(i)))
				}
				for i := n; i < n+50; i++ {
					mustWrite(t, core, update(p4.Update_INSERT, key(i)))
				}
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += 2 {
		if got := seen[string(key(i))]; got != 1 {
			t.Errorf("entry %d was read %d times", i, got)
		}
	}
}

// Messages of many tiny parts are refused before they are decoded, RPCs and
// connections beyond the budget before they are read.
func TestDoor(t *testing.T) {
	d := newDevice(t, nil)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	b := rpc.Budget{LastingRPCs: 5, Connections: 2, MessageParts: 1000}
	srv := grpc.NewServer(rpc.Options(b, nil)...)
	NewServer(&d.mu, d.core).Register(srv)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(rpc.LimitConnections(lis, b)) }()
	defer func() { srv.Stop(); <-done }()
	client := func() p4.P4RuntimeClient {
		conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the test is over
		return p4.NewP4RuntimeClient(conn)
	}
	a := client()
	tiny := &p4.WriteRequest{}
	for range 2000 {
		tiny.Updates = append(tiny.Updates, &p4.Update{})
	}
	if _, err := a.Write(t.Context(), tiny); err == nil || !strings.Contains(err.Error(), "budget parts of 1000") || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("2000 empty updates: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 { // the share of clients without a role
		s, err := a.StreamChannel(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.Send(&p4.StreamMessageRequest{}) //nolint:errcheck // it makes the stream be there
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	another := func() error {
		s, err := a.StreamChannel(t.Context())
		if err != nil {
			return err
		}
		s.Send(&p4.StreamMessageRequest{}) //nolint:errcheck // it makes the stream be there
		_, err = s.Recv()
		return err
	}
	err = another()
	names(t, err, "channels of clients without a role", 4)
	if _, err := a.Capabilities(t.Context(), &p4.CapabilitiesRequest{}); err != nil {
		t.Errorf("a request beside them: %v", err)
	}
	cancel()
	for deadline := time.Now().Add(10 * time.Second); err != nil; {
		if err = another(); err != nil && time.Now().After(deadline) {
			t.Fatalf("after the streams ended: %v", err)
		}
	}
	if _, err := client().Capabilities(t.Context(), &p4.CapabilitiesRequest{}); err != nil {
		t.Error(err)
	}
	c, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()                                    //nolint:errcheck // the test is over
	c.SetReadDeadline(time.Now().Add(5 * time.Second)) //nolint:errcheck // Read says so
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a third connection got %v, want it closed", err)
	}
}
