package gnmi

import (
	"testing"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/protobuf/proto"
)

// Any gNMI request is answered, and what Set accepts shows in Get.
func FuzzGNMI(f *testing.F) {
	f.Add(marshal(f, &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/interfaces/interface[name=*]/state")}}),
		marshal(f, &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1, jsonVal(`{"config":{"enabled":false}}`))}}),
		marshal(f, &gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{Subscribe: list(0, sub(eth1, 0))}}))
	f.Fuzz(func(t *testing.T, get, set, subscribe []byte) {
		d := newDevice(t, nil)
		gr, sr, br := &gnmipb.GetRequest{}, &gnmipb.SetRequest{}, &gnmipb.SubscribeRequest{}
		if proto.Unmarshal(get, gr) != nil || proto.Unmarshal(set, sr) != nil || proto.Unmarshal(subscribe, br) != nil || len(gr.GetPath()) > 20 {
			return
		}
		d.gn.Get(gr)                                                                       //nolint:errcheck // any answer will do
		s, err := d.gn.Subscribe(br, func(*gnmipb.SubscribeResponse) bool { return true }) // likewise
		d.gn.Set(sr)                                                                       //nolint:errcheck // likewise
		if next, ok := d.gn.NextDeadline(); ok {
			d.gn.Advance(next)
		}
		if err == nil {
			s.Close()
		}
	})
}

func marshal(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
