package gnmi

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/proto/gnmi_ext"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

func jsonVal(s string) *gnmipb.TypedValue {
	return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_JsonIetfVal{JsonIetfVal: []byte(s)}}
}

func boolVal(b bool) *gnmipb.TypedValue {
	return &gnmipb.TypedValue{Value: &gnmipb.TypedValue_BoolVal{BoolVal: b}}
}

func update(path string, v *gnmipb.TypedValue) *gnmipb.Update {
	return &gnmipb.Update{Path: gpath(path), Val: v}
}

func TestGNMISet(t *testing.T) {
	enabled := eth1 + "/config/enabled"
	for _, c := range []struct {
		name string
		req  *gnmipb.SetRequest
		want codes.Code
		down []string // interfaces disabled afterwards; Ethernet4 is so before
	}{
		{"leaf off", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, boolVal(false))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"leaf as JSON", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, jsonVal("false"))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"container", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/config", jsonVal(`{"openconfig-interfaces:enabled":false,"name":"Ethernet1"}`))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"interface", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1, jsonVal(`{"config":{"enabled":false,"openconfig-p4rt:id":1}}`))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"list", &gnmipb.SetRequest{Update: []*gnmipb.Update{update("/interfaces", jsonVal(
			`{"openconfig-interfaces:interface":[{"name":"Ethernet2","config":{"enabled":false}},{"name":"Ethernet3","config":{"enabled":false}}]}`))}},
			codes.OK, []string{"Ethernet2", "Ethernet3", "Ethernet4"}},
		{"update keeps what it does not name", &gnmipb.SetRequest{Update: []*gnmipb.Update{update("/interfaces/interface[name=Ethernet4]/config", jsonVal(`{"name":"Ethernet4"}`))}}, codes.OK, []string{"Ethernet4"}},
		{"replace reverts what it does not name", &gnmipb.SetRequest{Replace: []*gnmipb.Update{update("/interfaces/interface[name=Ethernet4]/config", jsonVal(`{"name":"Ethernet4"}`))}}, codes.OK, nil},
		{"delete reverts to the default", &gnmipb.SetRequest{Delete: []*gnmipb.Path{gpath("/interfaces/interface[name=Ethernet4]/config/enabled")}}, codes.OK, nil},
		{"wildcard delete", &gnmipb.SetRequest{Delete: []*gnmipb.Path{gpath("/interfaces/interface[name=*]/config")}}, codes.OK, nil},
		{"delete of what is not there", &gnmipb.SetRequest{Delete: []*gnmipb.Path{gpath("/interfaces/interface[name=Ethernet9]/config")}}, codes.OK, []string{"Ethernet4"}},
		{"delete, then replace, then update", &gnmipb.SetRequest{
			Update:  []*gnmipb.Update{update(enabled, boolVal(false))},
			Replace: []*gnmipb.Update{update(enabled, boolVal(true))},
			Delete:  []*gnmipb.Path{gpath("/interfaces/interface[name=Ethernet4]/config/enabled")},
		}, codes.OK, []string{"Ethernet1"}},
		{"union_replace", &gnmipb.SetRequest{UnionReplace: []*gnmipb.Update{update("/interfaces/interface[name=Ethernet4]/config", jsonVal(`{"enabled":true}`))}}, codes.OK, nil},

		{"union_replace of a leaf and its container", &gnmipb.SetRequest{UnionReplace: []*gnmipb.Update{
			update(enabled, boolVal(false)), update(eth1+"/config", jsonVal(`{"name":"Ethernet1"}`))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"union_replace of all and of a container", &gnmipb.SetRequest{UnionReplace: []*gnmipb.Update{
			update(eth1+"/config", jsonVal(`{"enabled":false}`)), update("/interfaces", jsonVal(`{"interface":[{"name":"Ethernet2","config":{"enabled":false}}]}`))}},
			codes.OK, []string{"Ethernet1", "Ethernet2"}},
		{"union_replace that agrees", &gnmipb.SetRequest{UnionReplace: []*gnmipb.Update{
			update(enabled, boolVal(false)), update(eth1+"/config", jsonVal(`{"enabled":false}`))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"union_replace that contradicts", &gnmipb.SetRequest{UnionReplace: []*gnmipb.Update{
			update(enabled, boolVal(false)), update(eth1+"/config", jsonVal(`{"enabled":true}`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"union_replace with update", &gnmipb.SetRequest{
			UnionReplace: []*gnmipb.Update{update(enabled, boolVal(false))}, Update: []*gnmipb.Update{update(enabled, boolVal(true))}},
			codes.InvalidArgument, []string{"Ethernet4"}},

		{"all or nothing", &gnmipb.SetRequest{Update: []*gnmipb.Update{
			update(enabled, boolVal(false)), update("/interfaces/interface[name=Ethernet9]/config/enabled", boolVal(false))}}, codes.NotFound, []string{"Ethernet4"}},
		{"wrong type", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, jsonVal(`"yes"`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"no JSON", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, jsonVal(`{`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"null", &gnmipb.SetRequest{Replace: []*gnmipb.Update{update(enabled, jsonVal(`null`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"null of a container", &gnmipb.SetRequest{Replace: []*gnmipb.Update{update(eth1+"/config", jsonVal(`null`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"null in a container", &gnmipb.SetRequest{Replace: []*gnmipb.Update{update(eth1, jsonVal(`{"name":"Ethernet1","config":null}`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"empty list element", &gnmipb.SetRequest{Replace: []*gnmipb.Update{update(eth1, jsonVal(`{}`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"no value", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, nil)}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"read-only", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/state/oper-status", jsonVal(`"DOWN"`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"delete read-only", &gnmipb.SetRequest{Delete: []*gnmipb.Path{gpath(eth1 + "/state")}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"fixed", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/config/id", jsonVal(`9`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"key conflict", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/config", jsonVal(`{"name":"Ethernet2"}`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"unknown leaf", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/config/colour", jsonVal(`"red"`))}}, codes.NotFound, []string{"Ethernet4"}},
		{"wildcard update", &gnmipb.SetRequest{Update: []*gnmipb.Update{update("/interfaces/interface[name=*]/config/enabled", boolVal(false))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"no key", &gnmipb.SetRequest{Update: []*gnmipb.Update{update("/interfaces/interface/config/enabled", boolVal(false))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"encoding", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, &gnmipb.TypedValue{Value: &gnmipb.TypedValue_AsciiVal{AsciiVal: "false"}})}}, codes.Unimplemented, []string{"Ethernet4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, d *device) {
				d.locked(func() {
					if err := d.ports.SetAdmin(4, false, 0); err != nil {
						t.Fatal(err)
					}
				})
				resp, err := d.gset(c.req)
				wantCode(t, err, c.want)
				if n := len(c.req.GetUpdate()) + len(c.req.GetReplace()) + len(c.req.GetDelete()) + len(c.req.GetUnionReplace()); err == nil && len(resp.GetResponse()) != n {
					t.Errorf("%d results, want %d", len(resp.GetResponse()), n)
				}
				var down []string
				d.locked(func() {
					for _, s := range d.ports.All() {
						if !s.Enabled {
							down = append(down, s.Name)
						}
						if s.Oper != s.Enabled {
							t.Errorf("%s: enabled %v, oper %v", s.Name, s.Enabled, s.Oper)
						}
					}
				})
				if diff := cmp.Diff(c.down, down); diff != "" {
					t.Errorf("disabled interfaces: %s", diff)
				}
			})
		})
	}
}

// TestExtensions: what an extension asks for is not ignored. A commit that needs a confirmation would stay without one.
func TestExtensions(t *testing.T) {
	enabled := eth1 + "/config/enabled"
	for _, c := range []struct {
		name string
		ext  *gnmi_ext.Extension
		want codes.Code
	}{
		{"commit", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_Commit{Commit: &gnmi_ext.Commit{
			Id: "1", Action: &gnmi_ext.Commit_Commit{Commit: &gnmi_ext.CommitRequest{}}}}}, codes.Unimplemented},
		{"history", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_History{History: &gnmi_ext.History{
			Request: &gnmi_ext.History_SnapshotTime{SnapshotTime: 1}}}}, codes.Unimplemented},
		{"depth", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_Depth{Depth: &gnmi_ext.Depth{Level: 1}}}, codes.Unimplemented},
		{"no depth", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_Depth{Depth: &gnmi_ext.Depth{}}}, codes.OK},
		{"config subscription", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_ConfigSubscription{
			ConfigSubscription: &gnmi_ext.ConfigSubscription{}}}, codes.Unimplemented},
		{"arbitration", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_MasterArbitration{}}, codes.Unimplemented},
		{"registered", &gnmi_ext.Extension{Ext: &gnmi_ext.Extension_RegisteredExt{}}, codes.Unimplemented},
		{"empty", &gnmi_ext.Extension{}, codes.Unimplemented},
	} {
		t.Run(c.name, func(t *testing.T) {
			exts := []*gnmi_ext.Extension{c.ext}
			d := newDevice(t, nil)
			_, err := d.gn.Set(&gnmipb.SetRequest{Update: []*gnmipb.Update{update(enabled, boolVal(false))}, Extension: exts})
			wantCode(t, err, c.want)
			if s, _ := d.ports.Port(1); s.Enabled != (c.want != codes.OK) {
				t.Errorf("Ethernet1 enabled: %v", s.Enabled)
			}
			_, err = d.gn.Get(&gnmipb.GetRequest{Path: []*gnmipb.Path{gpath(enabled)}, Extension: exts})
			wantCode(t, err, c.want)
			_, err = d.gn.Capabilities(&gnmipb.CapabilityRequest{Extension: exts})
			wantCode(t, err, c.want)
			list := &gnmipb.SubscribeRequest_Subscribe{Subscribe: &gnmipb.SubscriptionList{
				Mode: gnmipb.SubscriptionList_POLL, Subscription: []*gnmipb.Subscription{{Path: gpath(enabled)}}}}
			take := func(*gnmipb.SubscribeResponse) bool { return true }
			_, err = d.gn.Subscribe(&gnmipb.SubscribeRequest{Request: list, Extension: exts}, take)
			wantCode(t, err, c.want)
			sub, err := d.gn.Subscribe(&gnmipb.SubscribeRequest{Request: list}, take)
			if err != nil {
				t.Fatal(err)
			}
			wantCode(t, sub.Recv(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Poll{Poll: &gnmipb.Poll{}}, Extension: exts}), c.want)
		})
	}
}

// A world that cannot carry a change out has all of the Set taken back.
func TestGNMISetRollsBack(t *testing.T) {
	d := newDevice(t, nil)
	var calls []string
	d.ports.OnAdmin = func(n uint32, enabled bool) error {
		calls = append(calls, fmt.Sprint(n, enabled))
		if n == 3 {
			return errors.New("no such device")
		}
		return nil
	}
	_, err := d.gn.Set(&gnmipb.SetRequest{Update: []*gnmipb.Update{
		update(eth1+"/config/enabled", boolVal(false)),
		update("/interfaces/interface[name=Ethernet3]/config/enabled", boolVal(false)),
	}})
	wantCode(t, err, codes.Aborted)
	if diff := cmp.Diff([]string{"1 false", "3 false", "1 true"}, calls); diff != "" {
		t.Error(diff)
	}
	if s, _ := d.ports.Port(1); !s.Enabled {
		t.Error("Ethernet1 stayed disabled")
	}
}

// TestGNMISetNotes sets what a controller notes of a port: leaves of the state follow, and Ports knows it.
func TestGNMISetNotes(t *testing.T) {
	health, viable, ethernet := eth1+"/config/health-indicator", eth1+"/config/forwarding-viable", eth1+"/ethernet/config/forwarding-viable"
	for _, c := range []struct {
		name   string
		req    *gnmipb.SetRequest
		want   codes.Code
		health string // of the state
		viable bool
	}{
		{"health", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(health, jsonVal(`"BAD"`))}}, codes.OK, "BAD", true},
		{"bad health deleted", &gnmipb.SetRequest{Delete: []*gnmipb.Path{gpath(health)}}, codes.OK, "GOOD", true},
		{"viable", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(viable, boolVal(false))}}, codes.OK, "GOOD", false},
		{"viable below ethernet", &gnmipb.SetRequest{Replace: []*gnmipb.Update{update(ethernet, boolVal(false))}}, codes.OK, "GOOD", false},
		{"both in a subtree", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/config",
			jsonVal(`{"openconfig-hercules-interfaces:health-indicator":"UNKNOWN","openconfig-if-sdn-ext:forwarding-viable":false}`))}},
			codes.OK, "UNKNOWN", false},
		{"no such health", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(health, jsonVal(`"FINE"`))}}, codes.InvalidArgument, "GOOD", true},
		{"health of a wrong type", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(health, boolVal(true))}}, codes.InvalidArgument, "GOOD", true},
		{"viable of a wrong type", &gnmipb.SetRequest{Update: []*gnmipb.Update{update(viable, jsonVal(`"GOOD"`))}}, codes.InvalidArgument, "GOOD", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, nil)
			d.ports.Watched = true
			if c.req.GetDelete() != nil {
				d.ports.Configure(1, true, "BAD", 0) //nolint:errcheck // the port is there
			}
			_, err := d.gset(c.req)
			wantCode(t, err, c.want)
			s := d.ports.States()[0]
			if got := health1(t, d); got != c.health || s.Viable != c.viable || s.Usable() != c.viable || !s.Oper {
				t.Errorf("health %s, viable %v, usable %v, oper %v; want %s, %v", got, s.Viable, s.Usable(), s.Oper, c.health, c.viable)
			}
		})
	}
	d := newDevice(t, nil) // nothing follows Viable: it is fixed
	_, err := d.gset(&gnmipb.SetRequest{Update: []*gnmipb.Update{update(viable, boolVal(false))}})
	wantCode(t, err, codes.InvalidArgument)
}

func health1(t *testing.T, d *device) string {
	t.Helper()
	resp, err := d.gn.Get(&gnmipb.GetRequest{Path: []*gnmipb.Path{gpath(eth1 + "/state/health-indicator")}, Encoding: gnmipb.Encoding_PROTO})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetNotification()[0].GetUpdate()[0].GetVal().GetStringVal()
}

// TestGNMIInterfaceLeaves: what a port's interface has is there when it is known, and ON_CHANGE follows it.
func TestGNMIInterfaceLeaves(t *testing.T) {
	yes := true
	ports, err := portstate.New([]portstate.Config{{Name: "Ethernet1", Number: 1, MTU: 1500, Autoneg: &yes}, {Name: "Ethernet2", Number: 2}})
	if err != nil {
		t.Fatal(err)
	}
	d := newDevice(t, func(c *Config) { c.Ports = ports })
	value := func(path string) *gnmipb.TypedValue {
		resp, err := d.gn.Get(&gnmipb.GetRequest{Path: []*gnmipb.Path{gpath(path)}, Encoding: gnmipb.Encoding_PROTO})
		if err != nil {
			return nil
		}
		return resp.GetNotification()[0].GetUpdate()[0].GetVal()
	}
	ports.SetMTU(1, 9000, 1)    //nolint:errcheck // the port is there
	ports.SetOper(1, false, 2)  //nolint:errcheck // likewise
	ports.SetAdmin(1, false, 3) //nolint:errcheck // likewise
	ports.SetAdmin(1, true, 4)  //nolint:errcheck // likewise
	ports.SetOper(1, true, 5)   //nolint:errcheck // likewise
	if got := value(eth1 + "/state/mtu"); got.GetUintVal() != 9000 {
		t.Errorf("mtu %v", got)
	}
	if got := value(eth1 + "/ethernet/state/auto-negotiate"); !got.GetBoolVal() {
		t.Errorf("auto-negotiate %v", got)
	}
	if got := value(eth1 + "/state/counters/carrier-transitions"); got.GetUintVal() != 2 { // down and up
		t.Errorf("carrier-transitions %v", got)
	}
	for _, leaf := range []string{"/state/mtu", "/ethernet/state/auto-negotiate"} {
		if got := value("/interfaces/interface[name=Ethernet2]" + leaf); got != nil {
			t.Errorf("%s of a port without: %v", leaf, got)
		}
	}
}
