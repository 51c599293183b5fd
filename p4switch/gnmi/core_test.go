package gnmi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

// gpath parses "/interfaces/interface[name=Ethernet1]/state".
func gpath(s string) *gnmipb.Path {
	p := &gnmipb.Path{}
	for e := range strings.SplitSeq(strings.Trim(s, "/"), "/") {
		if e == "" {
			continue
		}
		pe := &gnmipb.PathElem{Name: e}
		if name, key, ok := strings.Cut(e, "["); ok {
			k, v, _ := strings.Cut(strings.TrimSuffix(key, "]"), "=")
			pe.Name, pe.Key = name, map[string]string{k: v}
		}
		p.Elem = append(p.Elem, pe)
	}
	return p
}

// pathString is the inverse of gpath.
func pathString(p *gnmipb.Path) string {
	var b strings.Builder
	for _, e := range p.GetElem() {
		b.WriteString("/" + e.GetName())
		for k, v := range e.GetKey() {
			fmt.Fprintf(&b, "[%s=%s]", k, v)
		}
	}
	return b.String()
}

func (d *device) gget(req *gnmipb.GetRequest) (*gnmipb.GetResponse, error) {
	if d.gnmi != nil {
		return d.gnmi.Get(context.Background(), req)
	}
	return d.gn.Get(req)
}

func (d *device) gset(req *gnmipb.SetRequest) (*gnmipb.SetResponse, error) {
	if d.gnmi != nil {
		return d.gnmi.Set(context.Background(), req)
	}
	return d.gn.Set(req)
}

const eth1 = "/interfaces/interface[name=Ethernet1]"

func TestGNMICapabilities(t *testing.T) {
	d := newDevice(t, nil).overBufconn()
	c, err := d.gnmi.Capabilities(context.Background(), &gnmipb.CapabilityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if c.GetGNMIVersion() == "" {
		t.Error("no gNMI version")
	}
	want := []gnmipb.Encoding{gnmipb.Encoding_JSON, gnmipb.Encoding_JSON_IETF, gnmipb.Encoding_PROTO}
	if diff := cmp.Diff(want, c.GetSupportedEncodings()); diff != "" {
		t.Error(diff)
	}
	var names []string
	for _, m := range c.GetSupportedModels() {
		names = append(names, m.GetName())
	}
	if !slices.Contains(names, "openconfig-interfaces") || !slices.Contains(names, "openconfig-p4rt") {
		t.Errorf("models %v", names)
	}
}

func TestGNMIGetLeaves(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		d.locked(func() {
			d.ports.Counters = func(n uint32) portstate.Counters { return portstate.Counters{InOctets: uint64(n) << 40, OutPkts: 7} }
			d.now = 5000
			if err := d.ports.SetOper(1, false, 4000); err != nil {
				t.Fatal(err)
			}
		})
		for _, c := range []struct {
			path, json, ietf, proto string
		}{
			{eth1 + "/state/oper-status", `"DOWN"`, `"DOWN"`, `string_val:"DOWN"`},
			{eth1 + "/state/admin-status", `"UP"`, `"UP"`, `string_val:"UP"`},
			{eth1 + "/state/health-indicator", `"BAD"`, `"BAD"`, `string_val:"BAD"`},
			{eth1 + "/ethernet/state/forwarding-viable", `true`, `true`, `bool_val:true`},
			{eth1 + "/config/enabled", `true`, `true`, `bool_val:true`},
			{eth1 + "/state/last-change", `4000`, `"4000"`, `uint_val:4000`},
			{eth1 + "/state/id", `1`, `1`, `uint_val:1`},
			{eth1 + "/state/ifindex", `1`, `1`, `uint_val:1`},
			{eth1 + "/state/counters/in-octets", `1099511627776`, `"1099511627776"`, `uint_val:1099511627776`},
			{eth1 + "/state/type", `"ethernetCsmacd"`, `"iana-if-type:ethernetCsmacd"`, `string_val:"iana-if-type:ethernetCsmacd"`},
		} {
			for enc, want := range map[gnmipb.Encoding]string{
				gnmipb.Encoding_JSON: c.json, gnmipb.Encoding_JSON_IETF: c.ietf, gnmipb.Encoding_PROTO: c.proto,
			} {
				resp, err := d.gget(&gnmipb.GetRequest{Path: []*gnmipb.Path{gpath(c.path)}, Encoding: enc})
				if err != nil {
					t.Fatalf("%s: %v", c.path, err)
				}
				n := resp.GetNotification()
				if len(n) != 1 || len(n[0].GetUpdate()) != 1 || n[0].GetTimestamp() != 5000 {
					t.Fatalf("%s: got %v, want one update at 5000", c.path, n)
				}
				u := n[0].GetUpdate()[0]
				if got := pathString(u.GetPath()); got != c.path {
					t.Errorf("path %s, want %s", got, c.path)
				}
				got := string(u.GetVal().GetJsonVal()) + string(u.GetVal().GetJsonIetfVal())
				if enc == gnmipb.Encoding_PROTO {
					got = strings.ReplaceAll(u.GetVal().String(), " ", "")
				}
				if got != want {
					t.Errorf("%s as %v: got %s, want %s", c.path, enc, got, want)
				}
			}
		}
	})
}

// Leaves of what a port may not have: without it they are not served.
func TestGNMIOptionalLeaves(t *testing.T) {
	count := func(uint32) portstate.Counters {
		return portstate.Counters{InPkts: 10, InMulticast: 3, InBroadcast: 1, OutPkts: 7, OutMulticast: 2}
	}
	for _, has := range []bool{false, true} {
		c := portstate.Config{Name: "veth1", Number: 1}
		if has {
			c.MAC, c.Speed = [6]byte{2, 0, 0, 0, 0, 0xa}, "SPEED_10GB"
		}
		ports, err := portstate.New([]portstate.Config{c})
		if err != nil {
			t.Fatal(err)
		}
		ports.Counters, ports.Casts = count, has
		g, err := New(Config{Ports: ports, Now: func() int64 { return 1 }})
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			"state/counters/in-unicast-pkts": `"6"`, "state/counters/in-multicast-pkts": `"3"`,
			"state/counters/in-broadcast-pkts": `"1"`, "state/counters/out-unicast-pkts": `"5"`,
			"ethernet/state/mac-address": `"02:00:00:00:00:0a"`, "ethernet/config/mac-address": `"02:00:00:00:00:0a"`,
			"ethernet/config/port-speed":           `"openconfig-if-ethernet:SPEED_10GB"`,
			"ethernet/state/negotiated-port-speed": `"openconfig-if-ethernet:SPEED_10GB"`,
		} {
			resp, err := g.Get(&gnmipb.GetRequest{
				Path: []*gnmipb.Path{gpath("/interfaces/interface[name=veth1]/" + path)}, Encoding: gnmipb.Encoding_JSON_IETF,
			})
			if has != (err == nil) {
				t.Errorf("%s: error %v", path, err)
			}
			if has && err == nil {
				if got := string(resp.GetNotification()[0].GetUpdate()[0].GetVal().GetJsonIetfVal()); got != want {
					t.Errorf("%s: %s, want %s", path, got, want)
				}
			}
		}
	}
}

func TestGNMIGetSubtree(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		notes := func(path string, typ gnmipb.GetRequest_DataType) []*gnmipb.Notification {
			t.Helper()
			resp, err := d.gget(&gnmipb.GetRequest{Path: []*gnmipb.Path{gpath(path)}, Type: typ, Encoding: gnmipb.Encoding_JSON_IETF})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			return resp.GetNotification()
		}
		get := func(path string, typ gnmipb.GetRequest_DataType) []*gnmipb.Update {
			t.Helper()
			return notes(path, typ)[0].GetUpdate()
		}
		decode := func(u *gnmipb.Update) any {
			var x any
			if err := json.Unmarshal(u.GetVal().GetJsonIetfVal(), &x); err != nil {
				t.Fatal(err)
			}
			return x
		}
		config := map[string]any{"enabled": true, "name": "Ethernet1", "type": "iana-if-type:ethernetCsmacd", "openconfig-p4rt:id": 1.0,
			"openconfig-if-sdn-ext:forwarding-viable": true, "openconfig-hercules-interfaces:health-indicator": "GOOD"}
		top := map[string]any{}
		for k, v := range config {
			if !strings.Contains(k, ":") {
				k = "openconfig-interfaces:" + k
			}
			top[k] = v
		}
		if diff := cmp.Diff([]any{top}, []any{decode(get(eth1+"/config", gnmipb.GetRequest_ALL)[0])}); diff != "" {
			t.Errorf("container: %s", diff)
		}
		want := map[string]any{"openconfig-interfaces:name": "Ethernet1", "openconfig-interfaces:config": config,
			"openconfig-if-ethernet:ethernet": map[string]any{"config": map[string]any{"openconfig-hercules-interfaces:forwarding-viable": true}}}
		if diff := cmp.Diff([]any{want}, []any{decode(get(eth1, gnmipb.GetRequest_CONFIG)[0])}); diff != "" {
			t.Errorf("CONFIG of an interface: %s", diff)
		}
		// Each interface that a path names has a notification.
		for _, path := range []string{
			"/interfaces/interface[name=*]/state/oper-status", "/interfaces/interface/state/oper-status",
			"/interfaces/*/state/counters", ".../oper-status",
		} {
			ns := notes(path, gnmipb.GetRequest_ALL)
			if len(ns) != 4 {
				t.Errorf("%s: %d notifications, want 4", path, len(ns))
			}
			for _, n := range ns {
				if len(n.GetUpdate()) != 1 {
					t.Errorf("%s: %d updates in a notification, want 1", path, len(n.GetUpdate()))
				}
			}
		}
		root := decode(get("/", gnmipb.GetRequest_ALL)[0]).(map[string]any)
		list := root["openconfig-interfaces:interfaces"].(map[string]any)["interface"].([]any)
		if len(list) != 4 {
			t.Errorf("the root holds %d interfaces, want 4", len(list))
		}
		if us := get(eth1, gnmipb.GetRequest_OPERATIONAL); len(us) != 1 {
			t.Errorf("OPERATIONAL: %d updates", len(us))
		} else if m := decode(us[0]).(map[string]any)["openconfig-interfaces:state"].(map[string]any); m["enabled"] != nil || m["oper-status"] != "UP" {
			t.Errorf("OPERATIONAL: %v", m)
		}
	})
}

func TestGNMIGetPrefixAndTarget(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		prefix := gpath("/interfaces/interface[name=Ethernet2]")
		prefix.Target, prefix.Origin = "tor0", "openconfig"
		resp, err := d.gget(&gnmipb.GetRequest{Prefix: prefix, Path: []*gnmipb.Path{gpath("state/oper-status"), gpath("config/enabled")}})
		if err != nil {
			t.Fatal(err)
		}
		if len(resp.GetNotification()) != 2 {
			t.Fatalf("%d notifications, want one per path", len(resp.GetNotification()))
		}
		for _, n := range resp.GetNotification() {
			if n.GetPrefix().GetTarget() != "tor0" || n.GetPrefix().GetOrigin() != "openconfig" {
				t.Errorf("prefix %v", n.GetPrefix())
			}
		}
	})
}

func TestGNMIGetErrors(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		for _, c := range []struct {
			name string
			req  *gnmipb.GetRequest
			want codes.Code
		}{
			{"no such interface", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/interfaces/interface[name=Ethernet9]")}}, codes.NotFound},
			{"no such leaf", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath(eth1 + "/state/weather")}}, codes.Unimplemented},
			{"no such model", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/network-instances")}}, codes.Unimplemented},
			{"key on a container", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/interfaces[name=x]")}}, codes.InvalidArgument},
			{"wrong key", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/interfaces/interface[id=1]")}}, codes.InvalidArgument},
			{"empty element", &gnmipb.GetRequest{Path: []*gnmipb.Path{{Elem: []*gnmipb.PathElem{{}}}}}, codes.InvalidArgument},
			{"origin", &gnmipb.GetRequest{Path: []*gnmipb.Path{{Origin: "cli"}}}, codes.Unimplemented},
			{"two origins", &gnmipb.GetRequest{Prefix: &gnmipb.Path{Origin: "openconfig"}, Path: []*gnmipb.Path{{Origin: "openconfig"}}}, codes.InvalidArgument},
			{"target in path", &gnmipb.GetRequest{Path: []*gnmipb.Path{{Target: "x"}}}, codes.InvalidArgument},
			{"encoding", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/")}, Encoding: gnmipb.Encoding_ASCII}, codes.Unimplemented},
			{"model", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/")}, UseModels: []*gnmipb.ModelData{{Name: "openconfig-bgp"}}}, codes.Unimplemented},
			{"type", &gnmipb.GetRequest{Path: []*gnmipb.Path{gpath("/")}, Type: 17}, codes.InvalidArgument},
		} {
			_, err := d.gget(c.req)
			t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) })
		}
	})
}
