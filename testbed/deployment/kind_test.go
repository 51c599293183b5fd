package deployment

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/preflight"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/controller/verify"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4src/p4srctest"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// toy is a kind of switch that only this file knows: its program has other names for tables and counters and other
// numbers for everything, it is loaded in a message of its own, and its controllers may write but few updates at once.
type toy struct{}

func (toy) Name() string { return "toy" }

func (toy) Program() targets.Program {
	return targets.Program{Name: "toy", Files: "p4info and json of the toy's program", MoreRoom: "get a larger toy"}
}

func (toy) Traits() targets.Traits {
	return targets.Traits{BatchSize: 7, NeedsPorts: true, Names: targets.Names{p4rt.CounterData: "toy_" + p4rt.CounterData}}
}

func (toy) Pack(c targets.Compiled) ([]byte, error) {
	const deviceData = 3 // of p4.tmp.P4DeviceConfig
	program, err := targets.PackJSON(c)
	return protowire.AppendBytes(protowire.AppendTag(nil, deviceData, protowire.BytesType), program), err
}

// Translate pairs the numbers of the controller's program with the toy's.
func (toy) Translate(info *p4config.P4Info) (targets.Translation, error) {
	t := toyTables{out: map[uint32]uint32{}, in: map[uint32]uint32{}}
	pair := func(ours, its *p4config.Preamble) {
		t.out[ours.GetId()], t.in[its.GetId()] = its.GetId(), ours.GetId()
	}
	for i, x := range p4src.V1ModelP4Info().GetTables() {
		its := info.GetTables()[i]
		if its.GetPreamble().GetName() != "toy_"+x.GetPreamble().GetName() {
			return nil, fmt.Errorf("p4info: no table toy_%s", x.GetPreamble().GetName())
		}
		pair(x.GetPreamble(), its.GetPreamble())
	}
	for i, x := range p4src.V1ModelP4Info().GetActions() {
		pair(x.GetPreamble(), info.GetActions()[i].GetPreamble())
	}
	return t, nil
}

type toyTables struct{ out, in map[uint32]uint32 }

// toyShares is how many shares a group of the toy's may have.
const toyShares = 64

func (toyTables) Room() (map[controller.Table]int64, int32) {
	return map[controller.Table]int64{controller.ECMP: 100}, toyShares
}

func (t toyTables) Client(over p4.P4RuntimeClient, _ targets.SwitchPlace, _ targets.EntryCodec) p4.P4RuntimeClient {
	return &toyClient{over, t}
}

// said returns an entity in other numbers.
func said(e *p4.Entity, numbers map[uint32]uint32) *p4.Entity {
	e = proto.CloneOf(e)
	te := e.GetTableEntry()
	if te == nil {
		return e
	}
	te.TableId = numbers[te.TableId]
	if a := te.GetAction().GetAction(); a != nil {
		a.ActionId = numbers[a.ActionId]
	}
	for _, a := range te.GetAction().GetActionProfileActionSet().GetActionProfileActions() {
		a.Action.ActionId = numbers[a.Action.ActionId]
	}
	return e
}

type toyClient struct {
	p4.P4RuntimeClient
	t toyTables
}

func (c *toyClient) Write(ctx context.Context, req *p4.WriteRequest, opts ...grpc.CallOption) (*p4.WriteResponse, error) {
	req = proto.CloneOf(req)
	for _, u := range req.GetUpdates() {
		u.Entity = said(u.GetEntity(), c.t.out)
	}
	return c.P4RuntimeClient.Write(ctx, req, opts...)
}

func (c *toyClient) Read(ctx context.Context, req *p4.ReadRequest, opts ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	req = proto.CloneOf(req)
	for i, e := range req.GetEntities() {
		req.Entities[i] = said(e, c.t.out)
	}
	stream, err := c.P4RuntimeClient.Read(ctx, req, opts...)
	return &toyAnswers{stream, c.t}, err
}

type toyAnswers struct {
	p4.P4Runtime_ReadClient
	t toyTables
}

func (a *toyAnswers) Recv() (*p4.ReadResponse, error) {
	r, err := a.P4Runtime_ReadClient.Recv()
	for i, e := range r.GetEntities() {
		r.Entities[i] = said(e, a.t.in)
	}
	return r, err
}

// toyProgram writes the files of the toy's program: ours, with its names and numbers.
func toyProgram(t *testing.T, dir string) {
	t.Helper()
	info, renamed := p4srctest.Renumbered(p4src.V1ModelP4Info()), map[string]string{}
	rename := func(p *p4config.Preamble) {
		renamed[p.GetName()] = "toy_" + p.GetName()
		p.Name, p.Alias = "toy_"+p.GetName(), "toy_"+p.GetAlias()
	}
	for _, x := range info.GetTables() {
		rename(x.GetPreamble())
	}
	for _, x := range info.GetCounters() {
		if x.GetPreamble().GetName() == p4rt.CounterData {
			rename(x.GetPreamble())
		}
	}
	var program any
	if err := json.Unmarshal(p4src.V1ModelJSON(), &program); err != nil {
		t.Fatal(err)
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if name, ok := renamed[v]; ok {
				return name
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	text, err := json.Marshal(walk(program))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"toy.json": text, "toy.p4info.txtpb": []byte(prototext.Format(info))} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// toyNumber is the toy's number of a port of the fabric.
func toyNumber(p fabric.PortNo) uint32 { return 300 - 3*uint32(p) }

// startToys starts a fabric of toys whose links are in memory, and returns what the controller's file says of it.
func startToys(t *testing.T, f *fabric.Fabric) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	t.Cleanup(func() { cancel(); done.Wait() })
	ends := map[fabric.End]*porttest.Memory{}
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		ends[l.A], ends[l.B] = porttest.Pair(64)
	}
	text := "programs: {toy: {p4info: toy.p4info.txtpb, json: toy.json}}\nswitches:\n"
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		cfg := process.Config{DeviceID: uint64(id) + 1, CPUPort: p4src.CPUPort, Queues: 2}
		cfg.PortEvents = &portstate.EventPackets{Port: p4src.PortEventPort, Ports: p4src.MaxPorts, Append: p4src.AppendPortEvent,
			Register: p4src.PortDown, Tables: p4src.PortTables()}
		var ports []string
		for p := fabric.PortNo(1); int(p) <= f.Node(id).Ports(); p++ {
			name := fmt.Sprintf("lane%d", p)
			ports = append(ports, fmt.Sprintf("{name: %s, id: %d}", name, toyNumber(p)))
			cfg.Ports = append(cfg.Ports, process.PortConfig{Number: toyNumber(p), Name: name, Port: ends[fabric.End{Node: id, Port: p}]})
		}
		d, err := process.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Skipf("no TCP on the loopback: %v", err)
		}
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })        //nolint:errcheck // it ends with ctx
		running.Go(func() { d.Serve(ctx, lis) }) //nolint:errcheck // it ends with ctx
		done.Go(func() { running.Wait(); d.Close() })
		text += fmt.Sprintf("  %s: {p4runtime: '%s', profile: toy, ports: [%s]}\n", f.Name(id), lis.Addr(), strings.Join(ports, ", "))
	}
	return text
}

// toyConfig returns a controller's configuration of a fabric of toys that run.
func toyConfig(t *testing.T, f *fabric.Fabric) daemon.Config {
	t.Helper()
	dir := t.TempDir()
	toyProgram(t, dir)
	file, err := daemon.ParseFile(filepath.Join(dir, "targets.yaml"), []byte(startToys(t, f)))
	if err != nil {
		t.Fatal(err)
	}
	cfg := daemon.Config{Core: controller.Config{Fabric: f}, Own: 1, SurveyTimeout: time.Minute, Dial: func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	}}
	if cfg.Pipeline, err = p4rt.NewPipeline(p4src.V1ModelP4Info(), p4src.V1ModelJSON()); err != nil {
		t.Fatal(err)
	}
	if err := file.Apply(&cfg); err == nil || !strings.Contains(err.Error(), `profile: "toy" is unknown`) {
		t.Fatalf("a kind that is in no list: %v", err)
	}
	file.Kinds = append(kinds.All(), toy{})
	if err := file.Apply(&cfg); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestToyKind brings up a fabric of a kind of switch that this file alone defines: its program is packed and
// translated, preflight looks at it and at its cables, a controller writes its tables, they are read back and proved,
// and its counters are found. Nothing else knows of the toy, but for the list of kinds that the targets file is applied
// with.
func TestToyKind(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := toyConfig(t, f)
	lines, err := preflight.Run(t.Context(), preflight.Config{Daemon: cfg, Push: true, Wait: 500 * time.Millisecond, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	for _, l := range lines {
		if l.Light == checklist.Red || l.Check == "cabling" {
			faults = append(faults, l.Seen)
		}
	}
	// The cables between switches are found by packets that the controller has them send and hand over.
	want := []string{"h0 to tor0 port 1 (lane1): nothing is received", "h1 to tor1 port 1 (lane1): nothing is received"}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("preflight (-want +got):\n%s", diff)
	}

	manage(t, cfg)

	found, err := daemon.Survey(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := verify.Network{Fabric: f, Tables: map[fabric.NodeID][]controller.Entry{}, Up: func(fabric.LinkID) bool { return true }}
	for _, x := range found {
		if x.Err != nil || !x.Pipeline || len(x.Tables.Stray) > 0 {
			t.Fatalf("%s: %v, runs the program: %v, astray: %v", f.Name(x.Node), x.Err, x.Pipeline, x.Tables.StrayReasons)
		}
		n.Tables[x.Node] = x.Tables.Entries
	}
	if r, err := verify.Check(t.Context(), n, verify.Options{}); err != nil || !r.OK() || r.Walks == 0 {
		t.Errorf("%v, %+v", err, r)
	}

	tor := f.ToRID(0)
	if n := cfg.PipelineOf(tor).Schema().MaxGroupSize(); n != toyShares {
		t.Errorf("groups of %d, want the toy's %d", n, toyShares)
	}
	x, err := Open(cfg, cfg.Dial)
	if err != nil {
		t.Fatal(err)
	}
	count(t, x.Switch(tor), &p4.CounterEntry{
		Index: &p4.Index{Index: int64(toyNumber(2))}, Data: &p4.CounterData{PacketCount: 7, ByteCount: 700},
	})
	got, err := x.Switch(tor).Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int64]Cell{2: {7, 700}}, got[CounterData]); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// manage has a controller write all tables, and ends it.
func manage(t *testing.T, cfg daemon.Config) {
	t.Helper()
	d, err := daemon.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for {
		s, err := d.Status(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if s.Ready && !s.Busy {
			break
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	<-ended
}

// count sets a cell of what a switch's ports have sent.
func count(t *testing.T, s *Switch, cell *p4.CounterEntry) {
	t.Helper()
	var ok bool
	if cell.CounterId, ok = s.pipeline.CounterID(CounterData); !ok {
		t.Fatal("the counter is not found")
	}
	conn, err := s.dial(s.target.P4Runtime)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, w := s.pipeline.Client(conn), p4rt.Writer{DeviceID: s.target.DeviceID, ElectionID: p4rt.ElectionID{High: 1}.Proto()}
	packets, err := p4rt.OpenPacketStream(t.Context(), client, s.pipeline.Schema(), w, func(p4rt.PacketIn) {})
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if _, err := client.Write(t.Context(), &p4.WriteRequest{DeviceId: w.DeviceID, ElectionId: w.ElectionID, Updates: []*p4.Update{{
		Type: p4.Update_MODIFY, Entity: &p4.Entity{Entity: &p4.Entity_CounterEntry{CounterEntry: cell}},
	}}}); err != nil {
		t.Fatal(err)
	}
}
