package gnmi

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
)

// A subscriber over gRPC that does not read neither blocks the switch nor
// makes it grow.
func TestServerStalledSubscriber(t *testing.T) {
	d := newDevice(t, nil).overBufconn()
	ctx := t.Context()
	stream, err := d.gnmi.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{
		Subscribe: list(gnmipb.SubscriptionList_STREAM, sub("/interfaces/interface/state", gnmipb.SubscriptionMode_TARGET_DEFINED))}}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	most := 0
	for i := range 20_000 {
		d.locked(func() {
			d.ports.SetOper(uint32(i%4)+1, i/4%2 == 1, int64(i)) //nolint:errcheck // the ports are there
			most = max(most, d.gn.subs[0].Pending())
		})
	}
	if limit := 4 * len(leaves); most > limit {
		t.Errorf("%d updates waited, want at most %d", most, limit)
	}
	// What arrives in the end is the last state of every port; else this waits
	// for ever and the test times out.
	want := map[string]uint64{"Ethernet1": 19_996, "Ethernet2": 19_997, "Ethernet3": 19_998, "Ethernet4": 19_999}
	last := map[string]uint64{}
	for !maps.Equal(last, want) {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range m.GetUpdate().GetUpdate() {
			if e := u.GetPath().GetElem(); e[len(e)-1].GetName() == "last-change" {
				last[e[1].GetKey()["name"]] = u.GetVal().GetUintVal()
			}
		}
	}
}

func dots(n int) *gnmipb.Path {
	p := &gnmipb.Path{}
	for range n {
		p.Elem = append(p.Elem, &gnmipb.PathElem{Name: "..."})
	}
	p.Elem = append(p.Elem, &gnmipb.PathElem{Name: "nothing"})
	return p
}

// A path of many "..." is matched in the time that its length allows.
func TestDotsDoNotBacktrack(t *testing.T) {
	d := newDevice(t, nil)
	start := time.Now()
	for range 100 {
		_, err := d.gn.Get(&gnmipb.GetRequest{Path: []*gnmipb.Path{dots(31)}})
		wantCode(t, err, codes.Unimplemented)
	}
	if took := time.Since(start); took > 5*time.Second { // backtracking takes years
		t.Errorf("100 paths took %v", took)
	}
	_, err := d.gn.Get(&gnmipb.GetRequest{Path: []*gnmipb.Path{dots(99)}})
	overBudget(t, err, "path-elements", 32)
}

func TestBudgets(t *testing.T) {
	d := newDevice(t, nil)
	most := rpc.DefaultBudget().PathsPerRequest
	_, err := d.gn.Get(&gnmipb.GetRequest{Path: make([]*gnmipb.Path, most+1)})
	overBudget(t, err, "paths", most)

	// An answer is held by all its values, however few paths ask for them.
	all := &gnmipb.GetRequest{Path: []*gnmipb.Path{{}}, Encoding: gnmipb.Encoding_PROTO}
	r, err := d.gn.Get(all)
	if err != nil {
		t.Fatal(err)
	}
	d.gn.budget.LeavesPerGet = 3 * len(r.GetNotification()[0].GetUpdate())
	for range 2 {
		all.Path = append(all.Path, &gnmipb.Path{})
	}
	if _, err := d.gn.Get(all); err != nil {
		t.Errorf("as many values as there may be: %v", err)
	}
	all.Path = append(all.Path, &gnmipb.Path{})
	_, err = d.gn.Get(all)
	overBudget(t, err, "leaves", d.gn.budget.LeavesPerGet)
}

// overBudget holds that an error names a bound and its number.
func overBudget(t *testing.T, err error, name string, most int) {
	t.Helper()
	if want := fmt.Sprintf("over the budget %s of %d", name, most); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", rpc.Shorten(fmt.Sprint(err)), want)
	}
}
