package p4runtime

import (
	"context"
	"encoding/binary"
	"net"
	"os"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// routes is a program with one LPM table that holds a million entries.
func routes(b testing.TB) *p4.ForwardingPipelineConfig {
	b.Helper()
	json, err := os.ReadFile("testdata/routes.json")
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile("testdata/routes.p4info.txtpb")
	if err != nil {
		b.Fatal(err)
	}
	info := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, info); err != nil {
		b.Fatal(err)
	}
	return &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: json}
}

// BenchmarkInsertLPM inserts and deletes /32 routes in batches of 100 and one
// by one, by direct calls and over TCP.
func BenchmarkInsertLPM(b *testing.B) {
	for _, size := range []int{1, 100} {
		for _, tcp := range []bool{false, true} {
			name := map[bool]string{false: "direct", true: "tcp"}[tcp]
			b.Run(name+"/batch="+map[int]string{1: "1", 100: "100"}[size], func(b *testing.B) { benchmarkInsert(b, size, tcp) })
		}
	}
}

func benchmarkInsert(b *testing.B, size int, tcp bool) {
	cfg := routes(b)
	core, err := New(Config{DeviceID: 1, Now: func() int64 { return 0 }})
	if err != nil {
		b.Fatal(err)
	}
	if err := core.Install(cfg); err != nil {
		b.Fatal(err)
	}
	st := core.OpenStream(func(*p4.StreamMessageResponse) error { return nil })
	if err := st.Recv(arbitration(1, "", id(1))); err != nil {
		b.Fatal(err)
	}
	write := core.Write
	if tcp {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Skip(err)
		}
		d := &device{core: core}
		srv := grpc.NewServer(rpc.Options(rpc.Budget{}, nil)...)
		NewServer(&d.mu, core).Register(srv)
		go srv.Serve(lis) //nolint:errcheck // ends with Stop
		defer srv.Stop()
		conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // the benchmark is over
		client := p4.NewP4RuntimeClient(conn)
		write = func(req *p4.WriteRequest) error {
			_, err := client.Write(context.Background(), req)
			return err
		}
	}
	table := cfg.GetP4Info().GetTables()[0].GetPreamble().GetId()
	var action uint32
	for _, a := range cfg.GetP4Info().GetActions() {
		if a.GetPreamble().GetAlias() == "forward" {
			action = a.GetPreamble().GetId()
		}
	}
	n := uint32(0)
	request := func() *p4.WriteRequest {
		req := &p4.WriteRequest{DeviceId: 1, ElectionId: id(1)}
		for range size {
			n++
			req.Updates = append(req.Updates, &p4.Update{Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{
				TableId: table,
				Match: []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{
					Value: binary.BigEndian.AppendUint32(nil, 0x0a000000+n), PrefixLen: 32}}}},
				Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{ActionId: action,
					Params: []*p4.Action_Param{{ParamId: 1, Value: []byte{2}}}}}},
			}}}})
		}
		return req
	}
	// Requests are made beforehand; what they insert is deleted when the table is full.
	const full = 900_000
	b.ResetTimer()
	for done := 0; done < b.N; {
		b.StopTimer()
		if n+uint32(size) > full {
			if err := core.Install(proto.Clone(cfg).(*p4.ForwardingPipelineConfig)); err != nil {
				b.Fatal(err)
			}
			n = 0
		}
		var reqs []*p4.WriteRequest
		for made := 0; made < 10_000 && done+made < b.N; made += size {
			reqs = append(reqs, request())
		}
		b.StartTimer()
		for _, req := range reqs {
			if err := write(req); err != nil {
				b.Fatal(err)
			}
			done += size
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "inserts/s")
}
