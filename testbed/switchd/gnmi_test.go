package switchd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
)

// gpath parses "/interfaces/interface[name=Ethernet1]/state".
func gpath(s string) *gnmi.Path {
	p := &gnmi.Path{}
	for _, e := range strings.Split(strings.Trim(s, "/"), "/") {
		if e == "" {
			continue
		}
		pe := &gnmi.PathElem{Name: e}
		if name, key, ok := strings.Cut(e, "["); ok {
			k, v, _ := strings.Cut(strings.TrimSuffix(key, "]"), "=")
			pe.Name, pe.Key = name, map[string]string{k: v}
		}
		p.Elem = append(p.Elem, pe)
	}
	return p
}

// pathString is the inverse of gpath.
func pathString(p *gnmi.Path) string {
	var b strings.Builder
	for _, e := range p.GetElem() {
		b.WriteString("/" + e.GetName())
		for k, v := range e.GetKey() {
			fmt.Fprintf(&b, "[%s=%s]", k, v)
		}
	}
	return b.String()
}

func (d *device) gget(req *gnmi.GetRequest) (*gnmi.GetResponse, error) {
	if d.gnmi != nil {
		return d.gnmi.Get(context.Background(), req)
	}
	return d.gn.Get(req)
}

func (d *device) gset(req *gnmi.SetRequest) (*gnmi.SetResponse, error) {
	if d.gnmi != nil {
		return d.gnmi.Set(context.Background(), req)
	}
	return d.gn.Set(req)
}

// locked runs f with the core's lock, as the owner of the data plane does.
func (d *device) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

const eth1 = "/interfaces/interface[name=Ethernet1]"

func TestGNMICapabilities(t *testing.T) {
	d := newDevice(t, nil).overBufconn()
	c, err := d.gnmi.Capabilities(context.Background(), &gnmi.CapabilityRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if c.GetGNMIVersion() == "" {
		t.Error("no gNMI version")
	}
	want := []gnmi.Encoding{gnmi.Encoding_JSON, gnmi.Encoding_JSON_IETF, gnmi.Encoding_PROTO}
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
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.locked(func() {
			d.ports.Counters = func(n uint32) Counters { return Counters{InOctets: uint64(n) << 40, OutPkts: 7} }
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
			{eth1 + "/config/enabled", `true`, `true`, `bool_val:true`},
			{eth1 + "/state/last-change", `4000`, `"4000"`, `uint_val:4000`},
			{eth1 + "/state/id", `1`, `1`, `uint_val:1`},
			{eth1 + "/state/ifindex", `1`, `1`, `uint_val:1`},
			{eth1 + "/state/counters/in-octets", `1099511627776`, `"1099511627776"`, `uint_val:1099511627776`},
			{eth1 + "/state/type", `"ethernetCsmacd"`, `"iana-if-type:ethernetCsmacd"`, `string_val:"iana-if-type:ethernetCsmacd"`},
		} {
			for enc, want := range map[gnmi.Encoding]string{
				gnmi.Encoding_JSON: c.json, gnmi.Encoding_JSON_IETF: c.ietf, gnmi.Encoding_PROTO: c.proto,
			} {
				resp, err := d.gget(&gnmi.GetRequest{Path: []*gnmi.Path{gpath(c.path)}, Encoding: enc})
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
				if enc == gnmi.Encoding_PROTO {
					got = strings.ReplaceAll(u.GetVal().String(), " ", "")
				}
				if got != want {
					t.Errorf("%s as %v: got %s, want %s", c.path, enc, got, want)
				}
			}
		}
	})
}

func TestGNMIGetSubtree(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		get := func(path string, typ gnmi.GetRequest_DataType) []*gnmi.Update {
			t.Helper()
			resp, err := d.gget(&gnmi.GetRequest{Path: []*gnmi.Path{gpath(path)}, Type: typ, Encoding: gnmi.Encoding_JSON_IETF})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			return resp.GetNotification()[0].GetUpdate()
		}
		decode := func(u *gnmi.Update) any {
			var x any
			if err := json.Unmarshal(u.GetVal().GetJsonIetfVal(), &x); err != nil {
				t.Fatal(err)
			}
			return x
		}
		config := map[string]any{"enabled": true, "name": "Ethernet1", "type": "iana-if-type:ethernetCsmacd", "openconfig-p4rt:id": 1.0}
		top := map[string]any{}
		for k, v := range config {
			if !strings.Contains(k, ":") {
				k = "openconfig-interfaces:" + k
			}
			top[k] = v
		}
		if diff := cmp.Diff([]any{top}, []any{decode(get(eth1+"/config", gnmi.GetRequest_ALL)[0])}); diff != "" {
			t.Errorf("container: %s", diff)
		}
		want := map[string]any{"openconfig-interfaces:name": "Ethernet1", "openconfig-interfaces:config": config}
		if diff := cmp.Diff([]any{want}, []any{decode(get(eth1, gnmi.GetRequest_CONFIG)[0])}); diff != "" {
			t.Errorf("CONFIG of an interface: %s", diff)
		}
		// A wildcard gives one update per interface.
		if us := get("/interfaces/interface[name=*]/state/oper-status", gnmi.GetRequest_ALL); len(us) != 4 {
			t.Errorf("wildcard: %d updates, want 4", len(us))
		}
		if us := get("/interfaces/interface/state/oper-status", gnmi.GetRequest_ALL); len(us) != 4 {
			t.Errorf("key left out: %d updates, want 4", len(us))
		}
		if us := get("/interfaces/*/state/counters", gnmi.GetRequest_ALL); len(us) != 4 {
			t.Errorf("* element: %d updates, want 4", len(us))
		}
		if us := get(".../oper-status", gnmi.GetRequest_ALL); len(us) != 4 {
			t.Errorf("... element: %d updates, want 4", len(us))
		}
		root := decode(get("/", gnmi.GetRequest_ALL)[0]).(map[string]any)
		list := root["openconfig-interfaces:interfaces"].(map[string]any)["interface"].([]any)
		if len(list) != 4 {
			t.Errorf("the root holds %d interfaces, want 4", len(list))
		}
		if us := get(eth1, gnmi.GetRequest_OPERATIONAL); len(us) != 1 {
			t.Errorf("OPERATIONAL: %d updates", len(us))
		} else if m := decode(us[0]).(map[string]any)["openconfig-interfaces:state"].(map[string]any); m["enabled"] != nil || m["oper-status"] != "UP" {
			t.Errorf("OPERATIONAL: %v", m)
		}
	})
}

func TestGNMIGetPrefixAndTarget(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		prefix := gpath("/interfaces/interface[name=Ethernet2]")
		prefix.Target, prefix.Origin = "tor0", "openconfig"
		resp, err := d.gget(&gnmi.GetRequest{Prefix: prefix, Path: []*gnmi.Path{gpath("state/oper-status"), gpath("config/enabled")}})
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
	onBoth(t, nil, func(t *testing.T, d *device) {
		for _, c := range []struct {
			name string
			req  *gnmi.GetRequest
			want codes.Code
		}{
			{"no such interface", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/interfaces/interface[name=Ethernet9]")}}, codes.NotFound},
			{"no such leaf", &gnmi.GetRequest{Path: []*gnmi.Path{gpath(eth1 + "/state/weather")}}, codes.Unimplemented},
			{"no such model", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/network-instances")}}, codes.Unimplemented},
			{"key on a container", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/interfaces[name=x]")}}, codes.InvalidArgument},
			{"wrong key", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/interfaces/interface[id=1]")}}, codes.InvalidArgument},
			{"empty element", &gnmi.GetRequest{Path: []*gnmi.Path{{Elem: []*gnmi.PathElem{{}}}}}, codes.InvalidArgument},
			{"origin", &gnmi.GetRequest{Path: []*gnmi.Path{{Origin: "cli"}}}, codes.Unimplemented},
			{"target in path", &gnmi.GetRequest{Path: []*gnmi.Path{{Target: "x"}}}, codes.InvalidArgument},
			{"encoding", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/")}, Encoding: gnmi.Encoding_ASCII}, codes.Unimplemented},
			{"model", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/")}, UseModels: []*gnmi.ModelData{{Name: "openconfig-bgp"}}}, codes.Unimplemented},
			{"type", &gnmi.GetRequest{Path: []*gnmi.Path{gpath("/")}, Type: 17}, codes.InvalidArgument},
		} {
			_, err := d.gget(c.req)
			t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) })
		}
	})
}

func jsonVal(s string) *gnmi.TypedValue {
	return &gnmi.TypedValue{Value: &gnmi.TypedValue_JsonIetfVal{JsonIetfVal: []byte(s)}}
}

func boolVal(b bool) *gnmi.TypedValue {
	return &gnmi.TypedValue{Value: &gnmi.TypedValue_BoolVal{BoolVal: b}}
}

func update(path string, v *gnmi.TypedValue) *gnmi.Update {
	return &gnmi.Update{Path: gpath(path), Val: v}
}

func TestGNMISet(t *testing.T) {
	enabled := eth1 + "/config/enabled"
	for _, c := range []struct {
		name string
		req  *gnmi.SetRequest
		want codes.Code
		down []string // interfaces disabled afterwards; Ethernet4 is so before
	}{
		{"leaf off", &gnmi.SetRequest{Update: []*gnmi.Update{update(enabled, boolVal(false))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"leaf as JSON", &gnmi.SetRequest{Update: []*gnmi.Update{update(enabled, jsonVal("false"))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"container", &gnmi.SetRequest{Update: []*gnmi.Update{update(eth1+"/config", jsonVal(`{"openconfig-interfaces:enabled":false,"name":"Ethernet1"}`))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"interface", &gnmi.SetRequest{Update: []*gnmi.Update{update(eth1, jsonVal(`{"config":{"enabled":false,"openconfig-p4rt:id":1}}`))}}, codes.OK, []string{"Ethernet1", "Ethernet4"}},
		{"list", &gnmi.SetRequest{Update: []*gnmi.Update{update("/interfaces", jsonVal(
			`{"openconfig-interfaces:interface":[{"name":"Ethernet2","config":{"enabled":false}},{"name":"Ethernet3","config":{"enabled":false}}]}`))}},
			codes.OK, []string{"Ethernet2", "Ethernet3", "Ethernet4"}},
		{"update keeps what it does not name", &gnmi.SetRequest{Update: []*gnmi.Update{update("/interfaces/interface[name=Ethernet4]/config", jsonVal(`{"name":"Ethernet4"}`))}}, codes.OK, []string{"Ethernet4"}},
		{"replace reverts what it does not name", &gnmi.SetRequest{Replace: []*gnmi.Update{update("/interfaces/interface[name=Ethernet4]/config", jsonVal(`{"name":"Ethernet4"}`))}}, codes.OK, nil},
		{"delete reverts to the default", &gnmi.SetRequest{Delete: []*gnmi.Path{gpath("/interfaces/interface[name=Ethernet4]/config/enabled")}}, codes.OK, nil},
		{"wildcard delete", &gnmi.SetRequest{Delete: []*gnmi.Path{gpath("/interfaces/interface[name=*]/config")}}, codes.OK, nil},
		{"delete of what is not there", &gnmi.SetRequest{Delete: []*gnmi.Path{gpath("/interfaces/interface[name=Ethernet9]/config")}}, codes.OK, []string{"Ethernet4"}},
		{"delete, then replace, then update", &gnmi.SetRequest{
			Update:  []*gnmi.Update{update(enabled, boolVal(false))},
			Replace: []*gnmi.Update{update(enabled, boolVal(true))},
			Delete:  []*gnmi.Path{gpath("/interfaces/interface[name=Ethernet4]/config/enabled")},
		}, codes.OK, []string{"Ethernet1"}},
		{"union_replace", &gnmi.SetRequest{UnionReplace: []*gnmi.Update{update("/interfaces/interface[name=Ethernet4]/config", jsonVal(`{"enabled":true}`))}}, codes.OK, nil},

		{"all or nothing", &gnmi.SetRequest{Update: []*gnmi.Update{
			update(enabled, boolVal(false)), update("/interfaces/interface[name=Ethernet9]/config/enabled", boolVal(false))}}, codes.NotFound, []string{"Ethernet4"}},
		{"wrong type", &gnmi.SetRequest{Update: []*gnmi.Update{update(enabled, jsonVal(`"yes"`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"no JSON", &gnmi.SetRequest{Update: []*gnmi.Update{update(enabled, jsonVal(`{`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"null", &gnmi.SetRequest{Replace: []*gnmi.Update{update(enabled, jsonVal(`null`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"empty list element", &gnmi.SetRequest{Replace: []*gnmi.Update{update(eth1, jsonVal(`{}`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"no value", &gnmi.SetRequest{Update: []*gnmi.Update{update(enabled, nil)}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"read-only", &gnmi.SetRequest{Update: []*gnmi.Update{update(eth1+"/state/oper-status", jsonVal(`"DOWN"`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"delete read-only", &gnmi.SetRequest{Delete: []*gnmi.Path{gpath(eth1 + "/state")}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"fixed", &gnmi.SetRequest{Update: []*gnmi.Update{update(eth1+"/config/id", jsonVal(`9`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"key conflict", &gnmi.SetRequest{Update: []*gnmi.Update{update(eth1+"/config", jsonVal(`{"name":"Ethernet2"}`))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"unknown leaf", &gnmi.SetRequest{Update: []*gnmi.Update{update(eth1+"/config/colour", jsonVal(`"red"`))}}, codes.NotFound, []string{"Ethernet4"}},
		{"wildcard update", &gnmi.SetRequest{Update: []*gnmi.Update{update("/interfaces/interface[name=*]/config/enabled", boolVal(false))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"no key", &gnmi.SetRequest{Update: []*gnmi.Update{update("/interfaces/interface/config/enabled", boolVal(false))}}, codes.InvalidArgument, []string{"Ethernet4"}},
		{"encoding", &gnmi.SetRequest{Update: []*gnmi.Update{update(enabled, &gnmi.TypedValue{Value: &gnmi.TypedValue_AsciiVal{AsciiVal: "false"}})}}, codes.Unimplemented, []string{"Ethernet4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onBoth(t, nil, func(t *testing.T, d *device) {
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
	_, err := d.gn.Set(&gnmi.SetRequest{Update: []*gnmi.Update{
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

// subscriber collects what a subscription sends.
type subscriber struct {
	t    *testing.T
	recv func() (*gnmi.SubscribeResponse, error)
	sub  *Subscription // direct
	end  func()
	poll func()
}

func (d *device) subscribe(list *gnmi.SubscriptionList) (*subscriber, error) {
	req := &gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Subscribe{Subscribe: list}}
	pollReq := &gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Poll{Poll: &gnmi.Poll{}}}
	s := &subscriber{t: d.t}
	if d.gnmi == nil {
		var queue []*gnmi.SubscribeResponse
		sub, err := d.gn.Subscribe(req, func(m *gnmi.SubscribeResponse) bool {
			queue = append(queue, m)
			return true
		})
		if err != nil {
			return nil, err
		}
		s.sub = sub
		s.recv = func() (*gnmi.SubscribeResponse, error) {
			if len(queue) == 0 {
				return nil, io.EOF
			}
			m := queue[0]
			queue = queue[1:]
			return m, nil
		}
		s.end = sub.Close
		s.poll = func() {
			if err := sub.Recv(pollReq); err != nil {
				d.t.Error(err)
			}
		}
		return s, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	d.t.Cleanup(cancel)
	stream, err := d.gnmi.Subscribe(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(req); err != nil {
		return nil, err
	}
	first, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	s.recv = func() (*gnmi.SubscribeResponse, error) {
		if m := first; m != nil {
			first = nil
			return m, nil
		}
		return stream.Recv()
	}
	s.end = cancel
	s.poll = func() {
		if err := stream.Send(pollReq); err != nil {
			d.t.Error(err)
		}
	}
	return s, nil
}

// next returns the updates of the next notification as "path=value" lines, or
// "sync".
func (s *subscriber) next() []string {
	s.t.Helper()
	m, err := s.recv()
	if err != nil {
		s.t.Fatalf("no message: %v", err)
	}
	return lines(m)
}

func lines(m *gnmi.SubscribeResponse) []string {
	if m.GetSyncResponse() {
		return []string{"sync"}
	}
	var out []string
	for _, u := range m.GetUpdate().GetUpdate() {
		v := u.GetVal()
		val := string(v.GetJsonVal()) + string(v.GetJsonIetfVal()) + v.GetStringVal()
		switch v.GetValue().(type) {
		case *gnmi.TypedValue_BoolVal:
			val = fmt.Sprint(v.GetBoolVal())
		case *gnmi.TypedValue_UintVal:
			val = fmt.Sprint(v.GetUintVal())
		}
		line := strings.TrimPrefix(pathString(u.GetPath()), "/interfaces/interface") + "=" + val
		if n := u.GetDuplicates(); n > 0 {
			line += fmt.Sprintf(" x%d", n)
		}
		out = append(out, line)
	}
	return out
}

// initial drops everything up to the sync_response and returns how many
// updates there were.
func (s *subscriber) initial() int {
	s.t.Helper()
	n := 0
	for {
		got := s.next()
		if len(got) == 1 && got[0] == "sync" {
			return n
		}
		n += len(got)
	}
}

func sub(path string, mode gnmi.SubscriptionMode) *gnmi.Subscription {
	return &gnmi.Subscription{Path: gpath(path), Mode: mode}
}

func list(mode gnmi.SubscriptionList_Mode, subs ...*gnmi.Subscription) *gnmi.SubscriptionList {
	return &gnmi.SubscriptionList{Mode: mode, Subscription: subs, Encoding: gnmi.Encoding_PROTO}
}

func TestGNMISubscribeOnChange(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmi.SubscriptionList_STREAM, sub("/interfaces/interface[name=*]/state/oper-status", gnmi.SubscriptionMode_ON_CHANGE)))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.initial(); n != 4 {
			t.Errorf("%d initial updates, want 4", n)
		}
		d.locked(func() {
			d.ports.SetOper(3, false, 7000) //nolint:errcheck // the port is there
			d.ports.SetOper(3, false, 7001) //nolint:errcheck // nothing changes
			d.ports.SetOper(3, true, 8000)  //nolint:errcheck // the port is there
		})
		m, err := s.recv()
		if err != nil {
			t.Fatal(err)
		}
		if got := m.GetUpdate().GetTimestamp(); got != 7000 {
			t.Errorf("timestamp %d, want that of the change, 7000", got)
		}
		if diff := cmp.Diff([]string{"[name=Ethernet3]/state/oper-status=DOWN"}, lines(m)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"[name=Ethernet3]/state/oper-status=UP"}, s.next()); diff != "" {
			t.Error(diff)
		}
		s.end()
	})
}

func TestGNMISetReachesSubscribers(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmi.SubscriptionList_STREAM, sub(eth1, gnmi.SubscriptionMode_ON_CHANGE)))
		if err != nil {
			t.Fatal(err)
		}
		s.initial()
		if _, err := d.gset(&gnmi.SetRequest{Update: []*gnmi.Update{update(eth1+"/config/enabled", boolVal(false))}}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"[name=Ethernet1]/config/enabled=false", "[name=Ethernet1]/state/enabled=false",
			"[name=Ethernet1]/state/admin-status=DOWN", "[name=Ethernet1]/state/oper-status=DOWN",
			"[name=Ethernet1]/state/last-change=1000",
		}
		if diff := cmp.Diff(want, s.next()); diff != "" {
			t.Error(diff)
		}
		s.end()
	})
}

func TestGNMISubscribeOnce(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmi.SubscriptionList_ONCE, sub("/interfaces", 0)))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.initial(); n != 4*len(leaves) {
			t.Errorf("%d updates, want %d", n, 4*len(leaves))
		}
		if m, err := s.recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after the sync_response: %v, %v; want the end", m, err)
		}
	})
}

func TestGNMISubscribePoll(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmi.SubscriptionList_POLL, sub(eth1+"/state/oper-status", 0)))
		if err != nil {
			t.Fatal(err)
		}
		s.initial()
		d.locked(func() { d.ports.SetOper(1, false, 1) }) //nolint:errcheck // the port is there
		s.poll()
		if diff := cmp.Diff([]string{"[name=Ethernet1]/state/oper-status=DOWN"}, s.next()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"sync"}, s.next()); diff != "" {
			t.Error(diff)
		}
		s.end()
	})
}

func TestGNMISubscribeUpdatesOnly(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		l := list(gnmi.SubscriptionList_STREAM, sub(eth1+"/state/oper-status", gnmi.SubscriptionMode_ON_CHANGE))
		l.UpdatesOnly = true
		s, err := d.subscribe(l)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"sync"}, s.next()); diff != "" {
			t.Error(diff)
		}
		s.end()
	})
}

// A path that names an interface which is not there is accepted: it may come.
func TestGNMISubscribeToNothing(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmi.SubscriptionList_STREAM, sub("/interfaces/interface[name=Ethernet9]", gnmi.SubscriptionMode_ON_CHANGE)))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.initial(); n != 0 {
			t.Errorf("%d updates", n)
		}
		s.end()
	})
}

func TestGNMISubscribeErrors(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		with := func(s *gnmi.Subscription, f func(*gnmi.Subscription)) *gnmi.Subscription {
			f(s)
			return s
		}
		for _, c := range []struct {
			name string
			list *gnmi.SubscriptionList
			want codes.Code
		}{
			{"no list", nil, codes.InvalidArgument},
			{"empty list", list(gnmi.SubscriptionList_STREAM), codes.InvalidArgument},
			{"unknown path", list(gnmi.SubscriptionList_STREAM, sub("/system", 0)), codes.Unimplemented},
			{"malformed path", list(gnmi.SubscriptionList_STREAM, sub("/interfaces/interface[id=1]", 0)), codes.InvalidArgument},
			{"counters on change", list(gnmi.SubscriptionList_STREAM, sub(eth1+"/state/counters", gnmi.SubscriptionMode_ON_CHANGE)), codes.InvalidArgument},
			{"interval too short", list(gnmi.SubscriptionList_STREAM, with(sub(eth1, gnmi.SubscriptionMode_SAMPLE), func(s *gnmi.Subscription) { s.SampleInterval = 1 })), codes.InvalidArgument},
			{"heartbeat too short", list(gnmi.SubscriptionList_STREAM, with(sub(eth1, gnmi.SubscriptionMode_ON_CHANGE), func(s *gnmi.Subscription) { s.HeartbeatInterval = 1 })), codes.InvalidArgument},
			{"interval with TARGET_DEFINED", list(gnmi.SubscriptionList_STREAM, with(sub(eth1, 0), func(s *gnmi.Subscription) { s.SampleInterval = 1e9 })), codes.InvalidArgument},
			{"encoding", &gnmi.SubscriptionList{Subscription: []*gnmi.Subscription{sub(eth1, 0)}, Encoding: gnmi.Encoding_BYTES}, codes.Unimplemented},
			{"mode", &gnmi.SubscriptionList{Subscription: []*gnmi.Subscription{sub(eth1, 0)}, Mode: 9}, codes.InvalidArgument},
		} {
			_, err := d.subscribe(c.list)
			t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) })
		}
	})
}

func TestGNMISubscriptionCannotChange(t *testing.T) {
	d := newDevice(t, nil)
	s, err := d.subscribe(list(gnmi.SubscriptionList_STREAM, sub(eth1, gnmi.SubscriptionMode_ON_CHANGE)))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.sub.Recv(&gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Poll{Poll: &gnmi.Poll{}}}), codes.InvalidArgument)
	wantCode(t, s.sub.Recv(&gnmi.SubscribeRequest{Request: &gnmi.SubscribeRequest_Subscribe{Subscribe: list(0)}}), codes.InvalidArgument)
}
