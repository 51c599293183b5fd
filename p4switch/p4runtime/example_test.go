package p4runtime_test

import (
	"fmt"
	"os"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
)

// A switch in process: load a program, become primary, add an entry, push a
// packet, see where it leaves.
func Example() {
	json, err := os.ReadFile("testdata/everything.json")
	check(err)
	text, err := os.ReadFile("testdata/everything.p4info.txtpb")
	check(err)
	info := &p4config.P4Info{}
	check(prototext.Unmarshal(text, info))

	core, err := p4runtime.New(p4runtime.Config{DeviceID: 1, Now: func() int64 { return 0 }})
	check(err)
	check(core.Install(&p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: json}))

	stream := core.OpenStream(func(*p4.StreamMessageResponse) error { return nil })
	id := &p4.Uint128{Low: 1}
	check(stream.Recv(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: 1, ElectionId: id}}}))

	mac := info.GetTables()[0] // In.mac: an exact match on the destination
	forward := info.GetActions()[3]
	fmt.Println(mac.GetPreamble().GetName(), forward.GetPreamble().GetName())
	entry := &p4.TableEntry{
		TableId: mac.GetPreamble().GetId(),
		Match: []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{
			Exact: &p4.FieldMatch_Exact{Value: []byte{9}}}}},
		Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: &p4.Action{
			ActionId: forward.GetPreamble().GetId(), Params: []*p4.Action_Param{{ParamId: 1, Value: []byte{2}}}}}},
	}
	check(core.Write(&p4.WriteRequest{DeviceId: 1, ElectionId: id, Updates: []*p4.Update{
		{Type: p4.Update_INSERT, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: entry}}}}}))

	packet := []byte{0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 8, 0x12, 0x34}
	core.Switch().Process(interp.Input{Port: 1, Data: packet}, func(o interp.Output) {
		fmt.Println("out of port", o.Port)
	})
	// Output:
	// In.mac In.count_forward
	// out of port 2
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
