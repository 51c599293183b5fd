package pins

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/goldentest"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// lab is one switch of a fabric, and a controller's view of it.
type lab struct {
	chip   *chip
	client *Client
	schema *p4rt.Schema
	place  switchPlace
}

func newLab(t testing.TB, at targets.SwitchPlace) *lab {
	t.Helper()
	program, err := NewProgram(likeSAI())
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := p4rt.NewPipeline(p4src.V1ModelP4Info(), nil)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := targets.Kinds{Kind{}}.ByName("pins")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{place: switchPlace{at}, schema: pipeline.Schema().ForDialect(p4rt.NewDialect(profile, at.Switch, at.Ports))}
	l.chip = &chip{t: t, program: program, rows: map[string]row{}}
	l.client = NewClient(l.chip, program, at, l.schema)
	return l
}

// bring has the switch hold what is wanted, as a session does: it is read, what is astray is deleted, the rest written.
// It returns how many updates and strays there were.
func (l *lab) bring(t fataler, want []controller.Entry) (updates, strays int) {
	t.Helper()
	ctx := context.Background()
	have, err := p4rt.Fetch(ctx, l.client, l.schema, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(have.Stray) > 0 {
		if _, err := l.client.Write(ctx, p4rt.DeleteRequest(p4rt.Writer{DeviceID: 1}, have.Stray)); err != nil {
			t.Fatalf("deleting strays: %v", err)
		}
	}
	us := controller.Diff(have.Entries, l.schema.ExpectedEntries(want))
	batches, err := l.schema.WriteRequests(p4rt.Writer{DeviceID: 1}, us)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		if _, err := l.client.Write(ctx, b.Request); err != nil {
			t.Fatalf("%v: %v", b.Updates, err)
		}
	}
	now, err := p4rt.Fetch(ctx, l.client, l.schema, 1)
	if err != nil || len(now.Stray) > 0 {
		t.Fatalf("strays %v, %v", now.StrayReasons, err)
	}
	if diff := cmp.Diff(l.schema.ExpectedEntries(want), now.Entries); diff != "" {
		t.Fatalf("-want +read back:\n%s", diff)
	}
	return len(us), len(have.Stray)
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func newCore(t fataler, spec fabric.Spec) *controller.Core {
	t.Helper()
	f, err := fabric.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	c, err := controller.New(controller.Config{
		Fabric: f, CarrierV4: controller.UDPSourcePort, CarrierV6: controller.UDPSourcePort, QuenchIntervalUs: 10, HashSeed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func setLink(t fataler, c *controller.Core, id fabric.LinkID, up bool) {
	t.Helper()
	l := c.Fabric().Link(id)
	for _, e := range []fabric.End{l.A, l.B} {
		if err := c.PortState(0, e.Node, e.Port, up); err != nil {
			t.Fatal(err)
		}
	}
}

var specs = []fabric.Spec{
	{Kind: fabric.KindFatTree, K: 4},
	{Kind: fabric.KindLeafSpine, ToRs: 4, Spines: 3, HostsPerToR: 2},
}

// TestConversation has all messages to a ToR and an aggregation switch from the start on, and when an uplink dies. Each
// request ends with an empty line.
func TestConversation(t *testing.T) {
	c := newCore(t, specs[0])
	f := c.Fabric()
	for _, id := range []fabric.NodeID{f.ToRID(0), f.ToRID(0) + fabric.NodeID(f.ToRs())} {
		l := newLab(t, targets.SwitchPlace{Fabric: f, Switch: id})
		l.bring(t, c.Desired(id))
		l.chip.said = append(l.chip.said, "-- the first uplink dies\n")
		link := f.Node(id).Link(f.Node(id).FirstUplink())
		setLink(t, c, link, false)
		l.bring(t, c.Desired(id))
		setLink(t, c, link, true)
		goldentest.Compare(t, "testdata/"+f.Name(id)+".txt", strings.Join(l.chip.said, "\n"))
	}
}

// TestFollows has every switch of a fabric follow links that come and go, by the rules of PINS; ports have other
// numbers than in the fabric.
func TestFollows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCore(rt, rapid.SampledFrom(specs).Draw(rt, "spec"))
		f := c.Fabric()
		var labs []*lab
		for i := range f.Switches() {
			id := fabric.NodeID(f.Hosts() + i)
			var ports []targets.Port
			for p := range f.Node(id).Ports() {
				ports = append(ports, targets.Port{Name: fmt.Sprintf("Ethernet1/%d/1", p+1), ID: uint32(500 - 7*p)})
			}
			m, err := targets.NewPortMap(ports)
			if err != nil {
				rt.Fatal(err)
			}
			labs = append(labs, newLab(t, targets.SwitchPlace{Fabric: f, Switch: id, Ports: m}))
		}
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			for _, l := range labs {
				l.bring(rt, c.Desired(l.place.Switch))
			}
			setLink(rt, c, fabric.LinkID(rapid.IntRange(0, f.Links()-1).Draw(rt, "link")), rapid.Bool().Draw(rt, "up"))
		}
		for _, l := range labs {
			if u, s := l.bring(rt, c.Desired(l.place.Switch)); u+s > 0 {
				if u, s := l.bring(rt, c.Desired(l.place.Switch)); u+s > 0 {
					rt.Fatalf("%d updates and %d strays of a switch that is as it should be", u, s)
				}
			}
		}
	})
}

// TestBroken changes what the controller's entries rest on behind its back: what does not do any more what it did is
// read as astray, and all is put right.
func TestBroken(t *testing.T) {
	c := newCore(t, specs[0])
	f := c.Fabric()
	id := f.ToRID(0)
	for what, change := range map[string]func(map[string]row, string, row){
		"changed": func(rows map[string]row, key string, r row) {
			switch {
			case len(r.shares) > 0:
				r.shares = r.shares[:1]
			case r.action == "acl_forward":
				r.action, r.args = "redirect_to_nexthop", []string{hopName("1")}
			case r.action == "drop":
				r.action, r.args = "set_nexthop_id", []string{hopName("1")}
			case len(r.args) > 0 && r.table != nexthopTable: // such a chip keeps to references
				r.args = slices.Clone(r.args)
				r.args[len(r.args)-1] = "\x02\x99"
			case r.table == admitTable:
				delete(rows, key)
				return
			}
			rows[key] = r
		},
		"gone": func(rows map[string]row, key string, r row) {
			for _, other := range rows {
				if slices.Contains(refersTo(&other), name(&r)) {
					return // such a chip refuses it
				}
			}
			delete(rows, key)
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLab(t, targets.SwitchPlace{Fabric: f, Switch: id})
			l.bring(t, c.Desired(id))
			for key, r := range maps.Clone(l.chip.rows) {
				before := text(&r)
				change(l.chip.rows, key, r)
				now, there := l.chip.rows[key]
				if there && text(&now) == before {
					continue
				}
				if u, s := l.bring(t, c.Desired(id)); u+s == 0 {
					t.Errorf("%s: %s now: %s is not seen", what, before, text(&now))
				}
				if now := l.chip.rows[key]; text(&now) != before {
					t.Errorf("%s has become %s", before, text(&now))
				}
			}
		})
	}
}

// TestOthers leaves what is not the controller's as it is.
func TestOthers(t *testing.T) {
	c := newCore(t, specs[1])
	id := c.Fabric().ToRID(1)
	l := newLab(t, targets.SwitchPlace{Fabric: c.Fabric(), Switch: id})
	others := []row{
		{table: v4Table, match: []match{exact("vrf_id", "blue"), {field: "ipv4_dst", value: "\x0a\x00\x00\x00", prefix: 8}}, action: "drop"},
		{table: groupTable, match: []match{exact("wcmp_group_id", "theirs")}, shares: []memberWeight{{hopName("1"), 1, "1"}}},
		{table: aclTable, priority: 9, match: []match{exact("is_ip", "\x01")}, action: "acl_forward"},
	}
	for _, r := range others {
		l.chip.rows[r.key()] = r
	}
	l.bring(t, c.Desired(id))
	l.bring(t, slices.DeleteFunc(c.Desired(id), func(e controller.Entry) bool { return e.Table != controller.LabelCarrier }))
	for _, r := range others {
		if have := l.chip.rows[r.key()]; !have.same(&r) {
			t.Errorf("%s has become %s", text(&r), text(&have))
		}
	}
}

// TestRefused says what is wrong with what sai_p4 has no words for.
func TestRefused(t *testing.T) {
	c := newCore(t, specs[0])
	p := switchPlace{targets.SwitchPlace{Fabric: c.Fabric(), Switch: c.Fabric().ToRID(0)}}
	for want, e := range map[string]controller.Entry{
		"carrier_v4":   {Key: controller.Key{Table: controller.LabelCarrier}, Action: controller.CarrierFlowLabel},
		"no such tabl": {Key: controller.Key{Table: controller.Device}, Action: controller.SetDevice},
		"no port 9": {Key: controller.Key{Table: controller.SourceRoute, Priority: 1}, Action: controller.TakeUplink,
			Args: [6]uint64{9}},
		"priority": {Key: controller.Key{Table: controller.SourceRoute, Priority: belowPriority}, Action: controller.TakeUplink},
		"MAC address": {Key: controller.Key{Table: controller.RouteV4, PrefixLen: 32}, Action: controller.Deliver,
			Args: [6]uint64{1, 42}},
		"no such action": {Key: controller.Key{Table: controller.RouteV6, PrefixLen: 64}, Action: controller.ForwardUplink},
	} {
		if _, err := p.toRow(e, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", e, err, want)
		}
	}
	for want, change := range map[string]func(*p4config.P4Info){
		"no table wcmp_group_table":       func(i *p4config.P4Info) { i.Tables[4].Preamble.Alias = "x" },
		"no key field l4_src_port":        func(i *p4config.P4Info) { i.Tables[7].MatchFields[6].Name = "x" },
		"no action redirect_to_nexthop":   func(i *p4config.P4Info) { i.Tables[7].ActionRefs = i.Tables[7].ActionRefs[:1] },
		"has not the parameters [dst_mac": func(i *p4config.P4Info) { i.Actions[1].Params[0].Name = "x" },
	} {
		info := likeSAI()
		change(info)
		if _, err := NewProgram(info); !errors.Is(err, ErrProgram) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestStream bids for the role whose tables they are.
func TestStream(t *testing.T) {
	sent := &fakeStream{}
	s := &roleStream{P4Runtime_StreamChannelClient: sent, role: "sdn_controller"}
	for _, m := range []*p4.StreamMessageRequest{
		{Update: &p4.StreamMessageRequest_Arbitration{Arbitration: &p4.MasterArbitrationUpdate{DeviceId: 7}}},
		{Update: &p4.StreamMessageRequest_Packet{Packet: &p4.PacketOut{}}},
	} {
		if err := s.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if a := sent.all[0].GetArbitration(); a.GetDeviceId() != 7 || a.GetRole().GetName() != "sdn_controller" || sent.all[1].GetPacket() == nil {
		t.Errorf("%v", sent.all)
	}
}

type fakeStream struct {
	p4.P4Runtime_StreamChannelClient
	all []*p4.StreamMessageRequest
}

func (f *fakeStream) Send(m *p4.StreamMessageRequest) error {
	f.all = append(f.all, m)
	return nil
}

// FuzzRead reads whatever a switch may say it holds. What is taken for an entry of the controller's is one: said again,
// it has the key of what was read.
func FuzzRead(f *testing.F) {
	c := newCore(f, specs[0])
	id := c.Fabric().ToRID(0)
	l := newLab(f, targets.SwitchPlace{Fabric: c.Fabric(), Switch: id})
	l.bring(f, c.Desired(id))
	for _, r := range l.chip.rows {
		b, err := proto.Marshal(l.chip.program.encode(&r, false))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	var foundation []row
	for _, part := range l.place.foundation() {
		foundation = append(foundation, part...)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &p4.Entity{}
		if proto.Unmarshal(b, e) != nil {
			return
		}
		r, ok := l.chip.program.decode(e.GetTableEntry())
		if !ok {
			return
		}
		found := l.place.fromRows(append(slices.Clone(foundation), r))
		for _, e := range found.Entries {
			again, err := l.place.toRow(e, false)
			if e.Action == controller.TakeUplink && e.Table == controller.ECMP && err == nil {
				again.shares = r.shares // in another order, and with or without watching
			}
			if err != nil || again.key() != r.key() || !again.same(&r) {
				t.Fatalf("%v was read of %s, and is said as %s, %v", e, text(&r), text(&again), err)
			}
		}
	})
}
