package p4runtime

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

const (
	verify    = p4.SetForwardingPipelineConfigRequest_VERIFY
	save      = p4.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE
	commit    = p4.SetForwardingPipelineConfigRequest_COMMIT
	saveAndGo = p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT
	reconcile = p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT
)

func (d *device) getPipeline(req *p4.GetForwardingPipelineConfigRequest) (*p4.GetForwardingPipelineConfigResponse, error) {
	if d.p4rt != nil {
		return d.p4rt.GetForwardingPipelineConfig(context.Background(), req)
	}
	return d.core.GetForwardingPipelineConfig(req)
}

const macEntry = `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } action { action { action_id: $count_forward params { param_id: 1 value: "\x02" } } } }`

func TestPipelineErrors(t *testing.T) {
	other := func(f func(*p4.ForwardingPipelineConfig)) *p4.ForwardingPipelineConfig {
		c := config(t)
		f(c)
		return c
	}
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(insert(t, macEntry))
		for _, c := range []struct {
			name string
			req  *p4.SetForwardingPipelineConfigRequest
			want codes.Code
		}{
			{"no config to verify", push(verify, nil), codes.InvalidArgument},
			{"no config to save", push(save, nil), codes.InvalidArgument},
			{"no config to commit", push(saveAndGo, nil), codes.InvalidArgument},
			{"no config to reconcile", push(reconcile, nil), codes.InvalidArgument},
			{"nothing saved", push(commit, nil), codes.NotFound},
			{"config with COMMIT", push(commit, config(t)), codes.InvalidArgument},
			{"no action", push(0, config(t)), codes.InvalidArgument},
			{"no P4Info", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) { c.P4Info = nil })), codes.InvalidArgument},
			{"no device config", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) { c.P4DeviceConfig = nil })), codes.InvalidArgument},
			{"broken JSON", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) { c.P4DeviceConfig = []byte(`{"pipelines":`) })), codes.InvalidArgument},
			{"no JSON", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) { c.P4DeviceConfig = []byte("\x00\x01tofino.bin") })), codes.InvalidArgument},
			{"another program's JSON", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) {
				for _, x := range c.P4Info.Tables {
					x.Preamble.Name += "x"
				}
			})), codes.InvalidArgument},
			{"action not in the JSON", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) {
				for _, x := range c.P4Info.Actions {
					x.Preamble.Name += "x"
				}
			})), codes.InvalidArgument},
			{"id twice", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) { c.P4Info.Tables[0].Preamble.Id = c.P4Info.Tables[1].Preamble.Id })), codes.InvalidArgument},
			{"id zero", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) { c.P4Info.Actions[0].Preamble.Id = 0 })), codes.InvalidArgument},
			{"match kinds differ", push(saveAndGo, other(func(c *p4.ForwardingPipelineConfig) {
				c.P4Info.Tables[0].MatchFields[0].Match = &p4config.MatchField_MatchType_{MatchType: p4config.MatchField_LPM}
			})), codes.InvalidArgument},
			{"wrong device", &p4.SetForwardingPipelineConfigRequest{DeviceId: 5, ElectionId: &p4.Uint128{Low: 1}, Action: verify, Config: config(t)}, codes.NotFound},
			{"wrong role", &p4.SetForwardingPipelineConfigRequest{DeviceId: testDevice, Role: "x", ElectionId: &p4.Uint128{Low: 1}, Action: verify, Config: config(t)}, codes.NotFound},
			{"wrong election id", &p4.SetForwardingPipelineConfigRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 2}, Action: verify, Config: config(t)}, codes.PermissionDenied},
			{"good to verify", push(verify, config(t)), codes.OK},
		} {
			err := d.setPipeline(c.req)
			t.Run(c.name, func(t *testing.T) { wantCode(t, err, c.want) })
		}
		// After all that the old program goes on with its entries.
		if diff := cmp.Diff([]uint32{2}, d.outPorts(1, frame(9, 8, 0x1234))); diff != "" {
			t.Errorf("the old program forwards to %s", diff)
		}
	})
}

func TestPipelineGet(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		r, err := d.getPipeline(&p4.GetForwardingPipelineConfigRequest{DeviceId: testDevice})
		if err != nil || r.GetConfig() != nil {
			t.Errorf("before a push: %v, %v; want no config", r, err)
		}
		_, err = d.getPipeline(&p4.GetForwardingPipelineConfigRequest{DeviceId: 1})
		wantCode(t, err, codes.NotFound)
		d.ready()
		all := config(t)
		cookie := all.GetCookie()
		for typ, want := range map[p4.GetForwardingPipelineConfigRequest_ResponseType]*p4.ForwardingPipelineConfig{
			p4.GetForwardingPipelineConfigRequest_ALL:                      all,
			p4.GetForwardingPipelineConfigRequest_COOKIE_ONLY:              {Cookie: cookie},
			p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:        {Cookie: cookie, P4Info: all.GetP4Info()},
			p4.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE: {Cookie: cookie, P4DeviceConfig: all.GetP4DeviceConfig()},
		} {
			r, err := d.getPipeline(&p4.GetForwardingPipelineConfigRequest{DeviceId: testDevice, ResponseType: typ})
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(want, r.GetConfig()) {
				t.Errorf("%v: %s", typ, cmp.Diff(want, r.GetConfig(), protocmp.Transform()))
			}
		}
	})
}

func TestNoPipeline(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.primary()
		wantCode(t, d.write(batch(insert(t, macEntry))), codes.FailedPrecondition)
		_, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{entity(t, `table_entry {}`)}})
		wantCode(t, err, codes.FailedPrecondition)
	})
}

func TestVerifyAndCommitClears(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(insert(t, macEntry))
		if err := d.setPipeline(push(saveAndGo, config(t))); err != nil {
			t.Fatal(err)
		}
		if got := d.mustRead(`table_entry { table_id: $mac }`); len(got) != 0 {
			t.Errorf("entries outlived the push: %v", got)
		}
	})
}

// The compiler leaves out of the JSON what packets never reach, and keeps it
// in P4Info: such a table takes no entries, and the rest works.
func TestCompiledAwayTable(t *testing.T) {
	d := newDevice(t, nil)
	d.primary()
	c := config(t)
	for _, x := range c.GetP4Info().GetTables() {
		if x.GetPreamble().GetAlias() == "smac" {
			x.Preamble.Name = "In.unreachable"
		}
	}
	if err := d.setPipeline(push(saveAndGo, c)); err != nil {
		t.Fatal(err)
	}
	wantCodes(t, d.write(batch(insert(t, `table_entry { table_id: $smac match { field_id: 1 exact { value: "\x01" } } action { action { action_id: $learn } } }`), insert(t, macEntry))),
		codes.Unimplemented, codes.OK)
	if got := d.mustRead(`table_entry {}`); len(got) != 3 {
		t.Errorf("%d entries, want 3", len(got))
	}
}

// Between VERIFY_AND_SAVE and COMMIT, writes refer to the saved pipeline and
// the data plane runs the old one.
func TestSaveThenCommit(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(insert(t, macEntry))
		if err := d.setPipeline(push(save, config(t))); err != nil {
			t.Fatal(err)
		}
		if got := d.mustRead(`table_entry { table_id: $mac }`); len(got) != 0 {
			t.Errorf("the saved pipeline starts with %v", got)
		}
		d.mustWrite(insert(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x07" } } action { action { action_id: $count_forward params { param_id: 1 value: "\x03" } } } }`))
		if diff := cmp.Diff([]uint32{2}, d.outPorts(1, frame(9, 8, 0x1234))); diff != "" {
			t.Errorf("before COMMIT: %s", diff)
		}
		if err := d.setPipeline(push(commit, nil)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]uint32{3}, d.outPorts(1, frame(7, 8, 0x1234))); diff != "" {
			t.Errorf("after COMMIT: %s", diff)
		}
		wantCode(t, d.setPipeline(push(commit, nil)), codes.NotFound)
	})
}

func TestReconcileKeepsState(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.ready()
		d.mustWrite(oneOfEach(t)...)
		d.inject(1, frame(9, 8, 0x1234)) // counts
		before := d.mustRead(everyEntity...)
		c := config(t)
		c.Cookie.Cookie = 78
		// A program in which an unused table has another size is another program.
		c.P4Info.Tables[0].Size = 9
		if err := d.setPipeline(push(reconcile, c)); err != nil {
			t.Fatal(err)
		}
		if diff := sameEntities(before, d.mustRead(everyEntity...)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]uint32{2}, d.outPorts(1, frame(9, 8, 0x1234))); diff != "" {
			t.Errorf("forwarding: %s", diff)
		}
		// A program without a table that has entries cannot take them over.
		before = d.mustRead(everyEntity...)
		c = config(t)
		c.P4Info.Tables = c.P4Info.Tables[1:]
		c.P4Info.DirectCounters = nil
		wantCode(t, d.setPipeline(push(reconcile, c)), codes.InvalidArgument)
		if diff := sameEntities(before, d.mustRead(everyEntity...)); diff != "" {
			t.Errorf("after the refusal: %s", diff)
		}
	})
}

// p4lang's tutorials wrap the JSON in p4.tmp.P4DeviceConfig.
func TestWrappedDeviceConfig(t *testing.T) {
	d := newDevice(t, nil)
	d.primary()
	c := config(t)
	wrapped := protowire.AppendTag(nil, 1, protowire.VarintType)
	wrapped = protowire.AppendVarint(wrapped, 1)
	wrapped = protowire.AppendTag(wrapped, 3, protowire.BytesType)
	c.P4DeviceConfig = protowire.AppendBytes(wrapped, c.P4DeviceConfig)
	wantCode(t, d.setPipeline(push(saveAndGo, c)), codes.OK)
}

// The owner of the data plane learns of every new switch and of the ports'
// state, so that it can inform the new program.
func TestPipelineHooks(t *testing.T) {
	var switches []*interp.Switch
	events := map[uint32]bool{}
	d := newDevice(t, func(c *Config) {
		c.OnSwitch = func(s *interp.Switch) { switches = append(switches, s) }
		c.OnPortEvent = func(n uint32, up bool) { events[n] = up }
	})
	d.ports.SetOper(2, false, 1) //nolint:errcheck // the port is there
	clear(events)
	if err := d.core.Install(config(t)); err != nil {
		t.Fatal(err)
	}
	if len(switches) != 1 || switches[0] != d.core.Switch() {
		t.Errorf("notified of %d switches", len(switches))
	}
	if diff := cmp.Diff(map[uint32]bool{1: true, 2: false, 3: true, 4: true}, events); diff != "" {
		t.Error(diff)
	}
}

func TestCapabilities(t *testing.T) {
	d := newDevice(t, nil).overBufconn()
	for _, c := range []struct {
		id   uint64
		want codes.Code
	}{{0, codes.OK}, {testDevice, codes.OK}, {1, codes.NotFound}} {
		r, err := d.p4rt.Capabilities(context.Background(), &p4.CapabilitiesRequest{DeviceId: c.id})
		wantCode(t, err, c.want)
		if err == nil && r.GetP4RuntimeApiVersion() != "1.5.0" {
			t.Errorf("API version %q", r.GetP4RuntimeApiVersion())
		}
	}
}

// Stock BMv2 scripts use device id 0.
func TestDeviceZero(t *testing.T) {
	d := newDevice(t, func(c *Config) { c.DeviceID, c.AllowDeviceZero = 0, true }).overBufconn()
	s := d.open()
	s.send(arbitration(0, "", id(1)))
	wants(t, "bid", s.received(), codes.OK)
	wantCode(t, d.setPipeline(&p4.SetForwardingPipelineConfigRequest{ElectionId: id(1), Action: saveAndGo, Config: config(t)}), codes.OK)
}
