package linkstate

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

func TestPortNames(t *testing.T) {
	for name, want := range map[string]fabric.PortNo{
		"Ethernet1": 1, "Ethernet65535": 65535,
		"Ethernet0": 0, "Ethernet01": 0, "Ethernet": 0, "Ethernet65536": 0, "Ethernet-1": 0, "Ethernet1/1": 0, "eth1": 0, "": 0,
	} {
		got, ok := (*targets.PortMap)(nil).ByName(name)
		if ok != (want != 0) || ok && got != want {
			t.Errorf("ByName(%q) = %d, %v", name, got, ok)
		}
		if ok && PortName(got) != name {
			t.Errorf("PortName(%d) = %q", got, PortName(got))
		}
	}
}

func TestRequest(t *testing.T) {
	for _, tc := range []struct {
		name string
		sub  Subscription
		want string
		err  string
	}{
		{"on change", Subscription{Target: "tor0", Heartbeat: 10 * fabric.Second, Encoding: gnmi.Encoding_JSON_IETF}, `subscribe {
			prefix { target: "tor0" } encoding: JSON_IETF
			subscription { mode: ON_CHANGE heartbeat_interval: 10000000000 path {
				elem { name: "interfaces" } elem { name: "interface" key { key: "name" value: "*" } } elem { name: "state" } elem { name: "oper-status" } } } }`, ""},
		{"sample, port by port", Subscription{Sample: fabric.Millisecond, Encoding: gnmi.Encoding_PROTO, Ports: []fabric.PortNo{3, 4}}, `subscribe {
			encoding: PROTO
			subscription { mode: SAMPLE sample_interval: 1000000 path {
				elem { name: "interfaces" } elem { name: "interface" key { key: "name" value: "Ethernet3" } } elem { name: "state" } elem { name: "oper-status" } } }
			subscription { mode: SAMPLE sample_interval: 1000000 path {
				elem { name: "interfaces" } elem { name: "interface" key { key: "name" value: "Ethernet4" } } elem { name: "state" } elem { name: "oper-status" } } } }`, ""},
		{"too short", Subscription{Heartbeat: 1}, "", "Heartbeat: 1ps"},
		{"negative", Subscription{Sample: -fabric.Second}, "", "Sample: -1s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.sub.Request()
			if tc.err != "" {
				if !errors.Is(err, ErrSubscription) || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("got %v, want %q", err, tc.err)
				}
				return
			}
			want := &gnmi.SubscribeRequest{}
			if err := prototext.Unmarshal([]byte(tc.want), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

const (
	interface3 = `elem { name: "interfaces" } elem { name: "interface" key { key: "name" value: "Ethernet3" } }`
	status3    = interface3 + ` elem { name: "state" } elem { name: "oper-status" }`
)

func notification(tb testing.TB, text string) *gnmi.Notification {
	tb.Helper()
	n := &gnmi.Notification{}
	if err := prototext.Unmarshal([]byte(text), n); err != nil {
		tb.Fatal(err)
	}
	return n
}

const speed = ` elem { name: "ethernet" } elem { name: "state" } elem { name: "port-speed" }`

func TestDecode(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []Event
		err        string
	}{
		{"JSON_IETF", `timestamp: 7 update { path { ` + status3 + ` } val { json_ietf_val: "\"UP\"" } }`, []Event{{3, Up, 7, 0}}, ""},
		{"JSON", `update { path { ` + status3 + ` } val { json_val: "\"DOWN\"" } }`, []Event{{3, Down, 0, 0}}, ""},
		{"PROTO", `update { path { ` + status3 + ` } val { string_val: "LOWER_LAYER_DOWN" } }`, []Event{{3, Down, 0, 0}}, ""},
		{"ASCII", `update { path { ` + status3 + ` } val { ascii_val: "UP\n" } }`, []Event{{3, Up, 0, 0}}, ""},
		{"prefix", `prefix { ` + interface3 + ` } update { path { elem { name: "state" } elem { name: "oper-status" } } val { string_val: "UP" } }`, []Event{{3, Up, 0, 0}}, ""},
		{"container", `update { path { ` + interface3 + ` elem { name: "state" } } val { json_ietf_val: "{\"openconfig-interfaces:oper-status\": \"UP\", \"mtu\": 9216}" } }`, []Event{{3, Up, 0, 0}}, ""},
		{"list entry", `update { path { ` + interface3 + ` } val { json_ietf_val: "{\"state\": {\"oper-status\": \"DORMANT\"}}" } }`, []Event{{3, Down, 0, 0}}, ""},
		{"container without it", `update { path { ` + interface3 + ` elem { name: "state" } } val { json_ietf_val: "{\"mtu\": 9216}" } }`, nil, ""},
		{"other leaf", `update { path { ` + interface3 + ` elem { name: "state" } elem { name: "mtu" } } val { uint_val: 9216 } }`, nil, ""},
		{"other interface", `update { path { elem { name: "interfaces" } elem { name: "interface" key { key: "name" value: "mgmt0" } } elem { name: "state" } elem { name: "oper-status" } } val { string_val: "UP" } }`, nil, ""},
		{"other tree", `update { path { elem { name: "system" } } val { string_val: "UP" } }`, nil, ""},
		{"delete leaf", `timestamp: 9 delete { ` + status3 + ` }`, []Event{{3, Gone, 9, 0}}, ""},
		{"delete interface", `delete { ` + interface3 + ` }`, []Event{{3, Gone, 0, 0}}, ""},
		{"delete all", `delete { elem { name: "interfaces" } }`, []Event{{0, AllGone, 0, 0}}, ""},
		{"delete below", `delete { ` + status3 + ` elem { name: "x" } }`, nil, ""},
		{"delete, then update", `update { path { ` + status3 + ` } val { string_val: "UP" } } delete { ` + interface3 + ` }`, []Event{{3, Gone, 0, 0}, {3, Up, 0, 0}}, ""},
		{"speed", `timestamp: 7 update { path { ` + interface3 + speed + ` } val { json_ietf_val: "\"openconfig-if-ethernet:SPEED_100GB\"" } }`,
			[]Event{{3, Speed, 7, 100 * fabric.Gbps}}, ""},
		{"unknown speed", `update { path { ` + interface3 + speed + ` } val { string_val: "SPEED_UNKNOWN" } }`, []Event{{3, Speed, 0, 0}}, ""},
		{"no speed", `update { path { ` + interface3 + speed + ` } val { string_val: "SPEED_3GB" } }`, nil, `"SPEED_3GB" is no ETHERNET_SPEED`},
		{"unknown status", `update { path { ` + status3 + ` } val { string_val: "SIDEWAYS" } }`, nil, `"SIDEWAYS" is none of UP`},
		{"bad type", `update { path { ` + status3 + ` } val { uint_val: 1 } }`, nil, "understood"},
		{"no value", `update { path { ` + status3 + ` } }`, nil, "no value"},
		{"bad JSON", `update { path { ` + status3 + ` } val { json_ietf_val: "UP" } }`, nil, "not a JSON string"},
		{"string for a container", `update { path { ` + interface3 + ` } val { string_val: "UP" } }`, nil, "where a container belongs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Decode(notification(t, tc.text), nil)
			if tc.err == "" && err != nil || tc.err != "" && (!errors.Is(err, ErrNotification) || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func operStatus(port fabric.PortNo, value string) *gnmi.SubscribeResponse {
	return &gnmi.SubscribeResponse{Response: &gnmi.SubscribeResponse_Update{Update: &gnmi.Notification{Update: []*gnmi.Update{{
		Path: OperStatusPath(PortName(port)), Val: &gnmi.TypedValue{Value: &gnmi.TypedValue_StringVal{StringVal: value}},
	}}}}}
}

func TestMonitor(t *testing.T) {
	synced := &gnmi.SubscribeResponse{Response: &gnmi.SubscribeResponse_SyncResponse{SyncResponse: true}}
	m, err := NewMonitor(100, nil)
	if err != nil {
		t.Fatal(err)
	}
	step := func(now fabric.Time, r *gnmi.SubscribeResponse, health Health, want ...Change) {
		t.Helper()
		got, err := m.Receive(now, r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("at %d (-want +got):\n%s", now, diff)
		}
		if m.Health() != health {
			t.Errorf("at %d: %v, want %v", now, m.Health(), health)
		}
	}
	m.Connected(0)
	step(1, operStatus(1, "UP"), Syncing, Change{Port: 1, Up: true})
	step(2, operStatus(2, "DOWN"), Syncing, Change{Port: 2, Up: false})
	step(3, synced, Fresh)
	step(10, operStatus(1, "UP"), Fresh) // a heartbeat
	step(20, operStatus(1, "DOWN"), Fresh, Change{Port: 1, Up: false})

	if due, ok := m.Deadline(); !ok || due != 120 {
		t.Errorf("deadline %d, %v, want 120", due, ok)
	}
	if m.Tick(119) || !m.Tick(120) || m.Tick(121) || m.Health() != Stale {
		t.Errorf("%v after 100 of silence", m.Health())
	}
	if _, ok := m.Deadline(); ok {
		t.Error("stale, but a deadline")
	}
	step(130, operStatus(2, "UP"), Fresh, Change{Port: 2, Up: true})

	// A new subscription that no longer names port 2.
	m.Disconnected()
	if up, known := m.Up(2); !up || !known {
		t.Error("the state went with the subscription")
	}
	m.Connected(200)
	step(201, operStatus(1, "DOWN"), Syncing)
	step(202, synced, Fresh, Change{Port: 2, Up: false})
	step(203, synced, Fresh)

	if _, err := m.Receive(300, &gnmi.SubscribeResponse{}); !errors.Is(err, ErrNotification) {
		t.Errorf("an empty response: %v", err)
	}
	if due, _ := m.Deadline(); due != 400 {
		t.Errorf("deadline %d: a bad message counts as heard", due)
	}
	if _, err := NewMonitor(0, nil); !errors.Is(err, ErrStaleAfter) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`update { path { ` + status3 + ` } val { json_ietf_val: "\"UP\"" } }`,
		`update { path { ` + interface3 + ` } val { json_ietf_val: "{\"state\": {\"oper-status\": \"UP\"}}" } }`,
		`delete { ` + interface3 + ` }`,
	} {
		wire, err := proto.Marshal(notification(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		n := &gnmi.Notification{}
		if proto.Unmarshal(wire, n) != nil {
			return
		}
		events, err := Decode(n, nil)
		if err != nil && events != nil {
			t.Errorf("events and error %v", err)
		}
		for _, e := range events {
			if (e.Port == 0) != (e.Kind == AllGone) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// TestClocksJump: a port is as the switch said last, whatever time it wrote on that, and a controller whose own clock
// jumps takes a switch for silent that is not at most until the next word.
func TestClocksJump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, err := NewMonitor(100, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := rapid.OneOf(rapid.Int64Range(0, 1000), rapid.Int64Range(0, math.MaxInt64))
		m.Connected(fabric.Time(now.Draw(t, "connected at")))
		want := map[fabric.PortNo]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "words") {
			at, port, up := fabric.Time(now.Draw(t, "now")), fabric.PortNo(rapid.IntRange(1, 3).Draw(t, "port")), rapid.Bool().Draw(t, "up")
			r := operStatus(port, map[bool]string{true: "UP", false: "DOWN"}[up])
			r.GetUpdate().Timestamp = rapid.Int64().Draw(t, "the switch's clock")
			was, known := m.Up(port)
			m.Tick(at)
			changes, err := m.Receive(at, r)
			if err != nil {
				t.Fatal(err)
			}
			want[port] = up
			if (len(changes) == 1) != (!known || was != up) || m.Health() == Stale {
				t.Fatalf("port %d was %v, is %v: %v; %v", port, was, up, changes, m.Health())
			}
			for p, up := range want {
				if got, known := m.Up(p); got != up || !known {
					t.Fatalf("port %d is %v, want %v", p, got, up)
				}
			}
			m.Deadline()
		}
	})
}
