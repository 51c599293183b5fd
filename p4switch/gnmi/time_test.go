package gnmi

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

// timeline advances a device from deadline to deadline until end and returns
// what a subscription sends, each message with its time in ms.
func timeline(d *device, s *subscriber, end int64) []string {
	var out []string
	for {
		next, ok := d.gn.NextDeadline()
		if !ok || next > end {
			return out
		}
		d.now = next
		d.gn.Advance(next)
		for {
			m, err := s.recv()
			if err != nil {
				break
			}
			out = append(out, fmt.Sprintf("%d: %v", next/1e6, lines(m)))
		}
	}
}

func TestGNMISample(t *testing.T) {
	const ms = 1e6
	path := eth1 + "/state/counters/out-pkts"
	line := func(v int) string { return fmt.Sprintf("[[name=Ethernet1]/state/counters/out-pkts=%d]", v) }
	for _, c := range []struct {
		name string
		sub  *gnmipb.Subscription
		want []string
	}{
		{"every interval", &gnmipb.Subscription{Path: gpath(path), Mode: gnmipb.SubscriptionMode_SAMPLE, SampleInterval: 20 * ms},
			[]string{"20: " + line(0), "40: " + line(0), "60: " + line(1), "80: " + line(1), "100: " + line(1)}},
		{"suppress redundant", &gnmipb.Subscription{Path: gpath(path), Mode: gnmipb.SubscriptionMode_SAMPLE, SampleInterval: 20 * ms, SuppressRedundant: true},
			[]string{"60: " + line(1)}},
		{"suppress redundant with heartbeat", &gnmipb.Subscription{Path: gpath(path), Mode: gnmipb.SubscriptionMode_SAMPLE, SampleInterval: 20 * ms, SuppressRedundant: true, HeartbeatInterval: 50 * ms},
			[]string{"50: " + line(1), "100: " + line(1)}},
		{"target defined", &gnmipb.Subscription{Path: gpath(path)}, nil},
		{"on change with heartbeat", &gnmipb.Subscription{Path: gpath(eth1 + "/state/oper-status"), Mode: gnmipb.SubscriptionMode_ON_CHANGE, HeartbeatInterval: 40 * ms},
			[]string{"40: [[name=Ethernet1]/state/oper-status=UP]", "80: [[name=Ethernet1]/state/oper-status=UP]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDevice(t, nil)
			d.now = 0
			d.ports.Counters = func(uint32) portstate.Counters {
				if d.now < 50*ms {
					return portstate.Counters{}
				}
				return portstate.Counters{OutPkts: 1}
			}
			s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, c.sub))
			if err != nil {
				t.Fatal(err)
			}
			s.initial()
			if diff := cmp.Diff(c.want, timeline(d, s, 100*ms)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Under TARGET_DEFINED counters are sampled and the rest is sent on change.
func TestGNMITargetDefined(t *testing.T) {
	d := newDevice(t, nil)
	d.now = 0
	s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, sub(eth1+"/state", gnmipb.SubscriptionMode_TARGET_DEFINED)))
	if err != nil {
		t.Fatal(err)
	}
	s.initial()
	if next, ok := d.gn.NextDeadline(); !ok || next != 10e9 {
		t.Errorf("next sample at %d, %v; want 10 s", next, ok)
	}
	d.ports.SetOper(1, false, 5) //nolint:errcheck // the port is there
	want := []string{
		"[name=Ethernet1]/state/oper-status=DOWN", "[name=Ethernet1]/state/last-change=5",
		"[name=Ethernet1]/state/health-indicator=BAD",
	}
	if diff := cmp.Diff(want, s.next()); diff != "" {
		t.Error(diff)
	}
	if got := timeline(d, s, 10e9); len(got) != 1 {
		t.Errorf("samples in the first 10 s: %v, want one", got)
	}
}

// A late Advance sends one sample, and the next one on the old grid.
func TestGNMISampleCatchesUp(t *testing.T) {
	d := newDevice(t, nil)
	d.now = 0
	s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, &gnmipb.Subscription{
		Path: gpath(eth1 + "/state/oper-status"), Mode: gnmipb.SubscriptionMode_SAMPLE, SampleInterval: 10e6}))
	if err != nil {
		t.Fatal(err)
	}
	s.initial()
	d.gn.Advance(95e6)
	s.next()
	if m, err := s.recv(); err == nil {
		t.Errorf("a second sample: %v", m)
	}
	if next, _ := d.gn.NextDeadline(); next != 100e6 {
		t.Errorf("next sample at %d, want 100 ms", next)
	}
}

// A subscriber that takes nothing neither blocks the switch nor makes it
// grow: ten thousand changes leave the latest value of each leaf.
func TestGNMIStalledSubscriberCoalesces(t *testing.T) {
	d := newDevice(t, nil)
	ready := true
	var got [][]string
	sub, err := d.gn.Subscribe(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{
		Subscribe: list(gnmipb.SubscriptionList_STREAM, sub("/interfaces/interface/state/oper-status", gnmipb.SubscriptionMode_ON_CHANGE)),
	}}, func(m *gnmipb.SubscribeResponse) bool {
		if ready {
			got = append(got, lines(m))
		}
		return ready
	})
	if err != nil {
		t.Fatal(err)
	}
	ready, got = false, nil
	for i := range 10_000 {
		d.ports.SetOper(uint32(i%4)+1, i/4%2 == 1, int64(i)) //nolint:errcheck // the ports are there
		if n := sub.Pending(); n > 4 {
			t.Fatalf("%d updates wait, want at most one for each of 4 leaves", n)
		}
	}
	d.ports.SetOper(2, false, 20_000) //nolint:errcheck // the port is there
	ready = true
	sub.Drain()
	want := [][]string{
		{"[name=Ethernet1]/state/oper-status=UP x2499"}, {"[name=Ethernet2]/state/oper-status=DOWN x2500"},
		{"[name=Ethernet3]/state/oper-status=UP x2499"}, {"[name=Ethernet4]/state/oper-status=UP x2499"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if sub.Pending() != 0 {
		t.Errorf("%d updates wait after Drain", sub.Pending())
	}
}

// The sync_response waits for the initial values, however slow they go out.
func TestGNMISyncFollowsInitialValues(t *testing.T) {
	d := newDevice(t, nil)
	room := 2
	var got []string
	sub, err := d.gn.Subscribe(&gnmipb.SubscribeRequest{Request: &gnmipb.SubscribeRequest_Subscribe{
		Subscribe: list(gnmipb.SubscriptionList_ONCE, sub("/interfaces/interface/name", 0)),
	}}, func(m *gnmipb.SubscribeResponse) bool {
		if room == 0 {
			return false
		}
		room--
		got = append(got, lines(m)...)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for !sub.Done() {
		room = 1
		sub.Drain()
	}
	if len(got) != 5 || slices.Index(got, "sync") != 4 {
		t.Errorf("got %v, want four names and then sync", got)
	}
}

// Run sends samples when the clock says so.
func TestServerKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, func(c *Config) { c.Now = func() int64 { return time.Now().UnixNano() } }).overBufconn()
		start := time.Now()
		s, err := d.subscribe(list(gnmipb.SubscriptionList_STREAM, &gnmipb.Subscription{
			Path: gpath(eth1 + "/state/oper-status"), Mode: gnmipb.SubscriptionMode_SAMPLE, SampleInterval: uint64(30 * time.Second)}))
		if err != nil {
			t.Fatal(err)
		}
		s.initial()
		for i := 1; i <= 3; i++ {
			s.next()
			if got := time.Since(start); got != time.Duration(i)*30*time.Second {
				t.Errorf("sample %d after %v", i, got)
			}
		}
		s.end()
	})
}
