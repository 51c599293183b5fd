package gnmi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
)

// subscriber collects what a subscription sends.
type subscriber struct {
	t    *testing.T
	recv func() (*gnmipb.SubscribeResponse, error)
	sub  *Subscription // direct
	end  func()
	poll func()
}

func (d *device) subscribe(list *gnmipb.SubscriptionList) (*subscriber, error) {
	req := &gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{Subscribe: list}}
	pollReq := &gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Poll{Poll: &gnmipb.Poll{}}}
	s := &subscriber{t: d.t}
	if d.gnmi == nil {
		var queue []*gnmipb.SubscribeResponse
		sub, err := d.gn.Subscribe(req, func(m *gnmipb.SubscribeResponse) bool {
			queue = append(queue, m)
			return true
		})
		if err != nil {
			return nil, err
		}
		s.sub = sub
		s.recv = func() (*gnmipb.SubscribeResponse, error) {
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
	s.recv = func() (*gnmipb.SubscribeResponse, error) {
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

func lines(m *gnmipb.SubscribeResponse) []string {
	if m.GetSyncResponse() {
		return []string{"sync"}
	}
	var out []string
	for _, u := range m.GetUpdate().GetUpdate() {
		v := u.GetVal()
		val := string(v.GetJsonVal()) + string(v.GetJsonIetfVal()) + v.GetStringVal()
		switch v.GetValue().(type) {
		case *gnmipb.TypedValue_BoolVal:
			val = fmt.Sprint(v.GetBoolVal())
		case *gnmipb.TypedValue_UintVal:
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

func sub(path string, mode gnmipb.SubscriptionMode) *gnmipb.Subscription {
	return &gnmipb.Subscription{Path: gpath(path), Mode: mode}
}

func list(mode gnmipb.SubscriptionList_Mode, subs ...*gnmipb.Subscription) *gnmipb.SubscriptionList {
	return &gnmipb.SubscriptionList{Mode: mode, Subscription: subs, Encoding: gnmipb.Encoding_PROTO}
}

func TestGNMISubscribeOnChange(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, sub("/interfaces/interface[name=*]/state/oper-status", gnmipb.SubscriptionMode_ON_CHANGE)))
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
	onBoth(t, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, sub(eth1, gnmipb.SubscriptionMode_ON_CHANGE)))
		if err != nil {
			t.Fatal(err)
		}
		s.initial()
		if _, err := d.gset(&gnmipb.SetRequest{Update: []*gnmipb.Update{update(eth1+"/config/enabled", boolVal(false))}}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"[name=Ethernet1]/config/enabled=false", "[name=Ethernet1]/state/enabled=false",
			"[name=Ethernet1]/state/admin-status=DOWN", "[name=Ethernet1]/state/oper-status=DOWN",
			"[name=Ethernet1]/state/last-change=1000", "[name=Ethernet1]/state/forwarding-viable=false",
			"[name=Ethernet1]/state/health-indicator=UNKNOWN", "[name=Ethernet1]/ethernet/state/forwarding-viable=false",
		}
		if diff := cmp.Diff(want, s.next()); diff != "" {
			t.Error(diff)
		}
		s.end()
	})
}

func TestGNMISubscribeOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmipb.SubscriptionList_ONCE, sub("/interfaces", 0)))
		if err != nil {
			t.Fatal(err)
		}
		every := 0 // leaves that each port has
		for _, l := range leaves {
			if !l.castCounter && l.isPresent == nil {
				every++
			}
		}
		if n := s.initial(); n != 4*every {
			t.Errorf("%d updates, want %d", n, 4*every)
		}
		if m, err := s.recv(); !errors.Is(err, io.EOF) {
			t.Errorf("after the sync_response: %v, %v; want the end", m, err)
		}
	})
}

func TestGNMISubscribePoll(t *testing.T) {
	onBoth(t, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmipb.SubscriptionList_POLL, sub(eth1+"/state/oper-status", 0)))
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
	onBoth(t, func(t *testing.T, d *device) {
		l := list(gnmipb.SubscriptionList_STREAM, sub(eth1+"/state/oper-status", gnmipb.SubscriptionMode_ON_CHANGE))
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
	onBoth(t, func(t *testing.T, d *device) {
		s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, sub("/interfaces/interface[name=Ethernet9]", gnmipb.SubscriptionMode_ON_CHANGE)))
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
	onBoth(t, func(t *testing.T, d *device) {
		with := func(s *gnmipb.Subscription, f func(*gnmipb.Subscription)) *gnmipb.Subscription {
			f(s)
			return s
		}
		for _, c := range []struct {
			name string
			list *gnmipb.SubscriptionList
			want codes.Code
		}{
			{"no list", nil, codes.InvalidArgument},
			{"empty list", list(gnmipb.SubscriptionList_STREAM), codes.InvalidArgument},
			{"unknown path", list(gnmipb.SubscriptionList_STREAM, sub("/system", 0)), codes.Unimplemented},
			{"malformed path", list(gnmipb.SubscriptionList_STREAM, sub("/interfaces/interface[id=1]", 0)), codes.InvalidArgument},
			{"counters on change", list(gnmipb.SubscriptionList_STREAM, sub(eth1+"/state/counters", gnmipb.SubscriptionMode_ON_CHANGE)), codes.InvalidArgument},
			{"interval too short", list(gnmipb.SubscriptionList_STREAM, with(sub(eth1, gnmipb.SubscriptionMode_SAMPLE), func(s *gnmipb.Subscription) { s.SampleInterval = 1 })), codes.InvalidArgument},
			{"heartbeat too short", list(gnmipb.SubscriptionList_STREAM, with(sub(eth1, gnmipb.SubscriptionMode_ON_CHANGE), func(s *gnmipb.Subscription) { s.HeartbeatInterval = 1 })), codes.InvalidArgument},
			{"interval with TARGET_DEFINED", list(gnmipb.SubscriptionList_STREAM, with(sub(eth1, 0), func(s *gnmipb.Subscription) { s.SampleInterval = 1e9 })), codes.InvalidArgument},
			{"encoding", &gnmipb.SubscriptionList{Subscription: []*gnmipb.Subscription{sub(eth1, 0)}, Encoding: gnmipb.Encoding_BYTES}, codes.Unimplemented},
			{"mode", &gnmipb.SubscriptionList{Subscription: []*gnmipb.Subscription{sub(eth1, 0)}, Mode: 9}, codes.InvalidArgument},
		} {
			_, err := d.subscribe(c.list)
			t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) })
		}
	})
}

func TestGNMISubscriptionCannotChange(t *testing.T) {
	d := newDevice(t, nil)
	s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, sub(eth1, gnmipb.SubscriptionMode_ON_CHANGE)))
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.sub.Recv(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Poll{Poll: &gnmipb.Poll{}}}), codes.InvalidArgument)
	wantCode(t, s.sub.Recv(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{Subscribe: list(0)}}), codes.InvalidArgument)
}
