//go:build linux

package differential

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
)

// Packet is a frame at a port.
type Packet struct {
	Port uint32
	Data []byte
}

// Device is a switch under comparison. A Device belongs to one goroutine.
type Device interface {
	// Write carries out one P4Runtime update.
	Write(u *p4.Update) error
	// Read returns what entities match the request.
	Read(e *p4.Entity) ([]*p4.Entity, error)
	// Run sends packets in, in order, and returns what came out since the last
	// call, by port and in the port's order. want is how many are expected: the
	// device waits for them for a while.
	Run(in []Packet, want int) (map[uint32][][]byte, error)
	Close() error
}

// Program is a compiled P4 program.
type Program struct {
	JSON   []byte
	P4Info *p4config.P4Info
}

const deviceID = 1

var electionID = &p4.Uint128{Low: 1}

// ours is p4switch/interp behind p4switch/p4runtime, called directly.
type ours struct {
	core *p4runtime.Core
	now  int64 // ns
	sw   *interp.Switch
}

// NewOurs returns a device that executes the program with p4switch/interp.
func NewOurs(p Program) (Device, error) {
	o := new(ours)
	var err error
	o.core, err = p4runtime.New(p4runtime.Config{
		DeviceID: deviceID, Now: func() int64 { return o.now }, OnSwitch: func(s *interp.Switch) { o.sw = s },
	})
	if err != nil {
		return nil, err
	}
	stream := o.core.OpenStream(func(*p4.StreamMessageResponse) error { return nil })
	if err := stream.Recv(arbitration()); err != nil {
		return nil, err
	}
	_, err = o.core.SetForwardingPipelineConfig(pipeline(p))
	return o, err
}

func arbitration() *p4.StreamMessageRequest {
	return &p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: deviceID, ElectionId: electionID},
	}}
}

func pipeline(p Program) *p4.SetForwardingPipelineConfigRequest {
	return &p4.SetForwardingPipelineConfigRequest{
		DeviceId: deviceID, ElectionId: electionID,
		Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{P4Info: p.P4Info, P4DeviceConfig: p.JSON},
	}
}

func writeRequest(u *p4.Update) *p4.WriteRequest {
	return &p4.WriteRequest{DeviceId: deviceID, ElectionId: electionID, Updates: []*p4.Update{u}}
}

func (o *ours) Write(u *p4.Update) error { return o.core.Write(writeRequest(proto.CloneOf(u))) }

func (o *ours) Read(e *p4.Entity) ([]*p4.Entity, error) {
	var got []*p4.Entity
	err := o.core.Read(&p4.ReadRequest{DeviceId: deviceID, Entities: []*p4.Entity{e}}, func(r *p4.ReadResponse) error {
		for _, e := range r.GetEntities() {
			got = append(got, proto.CloneOf(e))
		}
		return nil
	})
	return got, err
}

func (o *ours) Run(in []Packet, _ int) (map[uint32][][]byte, error) {
	out := map[uint32][][]byte{}
	for _, p := range in {
		o.now += 100_000 // 100 us a packet
		o.sw.Process(interp.Input{Port: p.Port, Data: p.Data, Length: len(p.Data), Now: o.now}, func(q interp.Output) {
			out[q.Port] = append(out[q.Port], append([]byte(nil), q.Data...))
		})
	}
	return out, nil
}

func (o *ours) Close() error { return nil }
