package p4runtime

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

const cpuPort = 510

// everything is testdata/everything.p4 as a controller pushes it.
var everything = sync.OnceValues(func() (*p4.ForwardingPipelineConfig, error) {
	json, err := os.ReadFile("testdata/everything.json")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("testdata/everything.p4info.txtpb")
	if err != nil {
		return nil, err
	}
	info := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, info); err != nil {
		return nil, err
	}
	return &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: json, Cookie: &p4.ForwardingPipelineConfig_Cookie{Cookie: 77}}, nil
})

// config returns a copy of the pipeline that a test may change.
func config(t testing.TB) *p4.ForwardingPipelineConfig {
	t.Helper()
	c, err := everything()
	if err != nil {
		t.Fatal(err)
	}
	return proto.Clone(c).(*p4.ForwardingPipelineConfig)
}

// ids maps the aliases of P4Info's objects to their ids.
var ids = sync.OnceValue(func() map[string]uint32 {
	out := map[string]uint32{}
	c, err := everything()
	if err != nil {
		return out
	}
	add := func(p *p4config.Preamble) { out[p.GetAlias()] = p.GetId() }
	for _, x := range c.GetP4Info().GetTables() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetActions() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetActionProfiles() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetCounters() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetMeters() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetRegisters() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetValueSets() {
		add(x.GetPreamble())
	}
	for _, x := range c.GetP4Info().GetDigests() {
		add(x.GetPreamble())
	}
	return out
})

var aliases = regexp.MustCompile(`\$\w+`)

// entity parses an entity in text format, in which $alias stands for the id
// of a P4Info object.
func entity(t testing.TB, text string) *p4.Entity {
	t.Helper()
	text = aliases.ReplaceAllStringFunc(text, func(name string) string {
		id, ok := ids()[name[1:]]
		if !ok {
			t.Fatalf("no P4Info object is called %s", name)
		}
		return strconv.FormatUint(uint64(id), 10)
	})
	e := &p4.Entity{}
	if err := prototext.Unmarshal([]byte(text), e); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return e
}

func insert(t testing.TB, text string) *p4.Update {
	t.Helper()
	return &p4.Update{Type: p4.Update_INSERT, Entity: entity(t, text)}
}

func modify(t testing.TB, text string) *p4.Update {
	t.Helper()
	return &p4.Update{Type: p4.Update_MODIFY, Entity: entity(t, text)}
}

func remove(t testing.TB, text string) *p4.Update {
	t.Helper()
	return &p4.Update{Type: p4.Update_DELETE, Entity: entity(t, text)}
}

// batch is a write by the primary of [device.primary].
func batch(updates ...*p4.Update) *p4.WriteRequest {
	return &p4.WriteRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Updates: updates}
}

func push(action p4.SetForwardingPipelineConfigRequest_Action, c *p4.ForwardingPipelineConfig) *p4.SetForwardingPipelineConfigRequest {
	return &p4.SetForwardingPipelineConfigRequest{DeviceId: testDevice, ElectionId: &p4.Uint128{Low: 1}, Action: action, Config: c}
}

// ready makes a primary and pushes the program.
func (d *device) ready() *session {
	d.t.Helper()
	s := d.primary()
	if err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, config(d.t))); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// mustWrite fails the test if an update fails.
func (d *device) mustWrite(updates ...*p4.Update) {
	d.t.Helper()
	if err := d.write(batch(updates...)); err != nil {
		d.t.Fatalf("write: %v%v", err, errorCodes(err))
	}
}

// mustRead reads the entities that queries in text format name.
func (d *device) mustRead(queries ...string) []*p4.Entity {
	d.t.Helper()
	req := &p4.ReadRequest{DeviceId: testDevice}
	for _, q := range queries {
		req.Entities = append(req.Entities, entity(d.t, q))
	}
	out, err := d.read(req)
	if err != nil {
		d.t.Fatalf("read: %v%v", err, errorCodes(err))
	}
	return out
}

// errorCodes lists the codes of the p4.Errors in a status.
func errorCodes(err error) []codes.Code {
	var out []codes.Code
	for _, x := range status.Convert(err).Details() {
		if e, ok := x.(*p4.Error); ok {
			out = append(out, codes.Code(e.GetCanonicalCode()))
		}
	}
	return out
}

// everyEntity reads all that can be read, direct resources and defaults
// included.
var everyEntity = []string{
	`table_entry { counter_data {} meter_config {} }`, `table_entry { is_default_action: true }`,
	`action_profile_member {}`, `action_profile_group {}`, `counter_entry {}`, `direct_counter_entry { table_entry {} }`,
	`meter_entry {}`, `direct_meter_entry { table_entry {} }`, `value_set_entry {}`, `register_entry {}`, `digest_entry {}`,
	`packet_replication_engine_entry { multicast_group_entry {} }`, `packet_replication_engine_entry { clone_session_entry {} }`,
}

// sameEntities compares entities as sets.
func sameEntities(want, got []*p4.Entity) string {
	sorted := func(es []*p4.Entity) []string {
		out := make([]string, len(es))
		for i, e := range es {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
			if err != nil {
				panic(err)
			}
			out[i] = string(b)
		}
		slices.Sort(out)
		return out
	}
	if slices.Equal(sorted(want), sorted(got)) {
		return ""
	}
	return cmp.Diff(want, got, protocmp.Transform(),
		cmpopts.SortSlices(func(a, b protocmp.Message) bool { return a.String() < b.String() }), cmpopts.EquateEmpty())
}

// loadOnce is program.Load for tests that push the same program many times.
var loadOnce = func() func([]byte) (*program.Program, error) {
	var mu sync.Mutex
	programs := map[string]*program.Program{}
	return func(json []byte) (*program.Program, error) {
		mu.Lock()
		defer mu.Unlock()
		if p := programs[string(json)]; p != nil {
			return p, nil
		}
		p, err := program.Load(json)
		if err == nil {
			programs[string(json)] = p
		}
		return p, err
	}
}()

// emitted is a packet that left the switch.
type emitted struct {
	Port uint32
	Data string
}

// inject sends a packet through the data plane at the device's time.
func (d *device) inject(port uint32, data []byte) []emitted {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []emitted
	d.core.Switch().Process(interp.Input{Port: port, Data: data, Now: d.core.dataplaneNow()}, func(o interp.Output) {
		if o.Port == cpuPort {
			d.core.PacketIn(o.Data)
			return
		}
		out = append(out, emitted{o.Port, string(o.Data)})
	})
	return out
}

// outPorts are the ports at which a packet leaves.
func (d *device) outPorts(port uint32, data []byte) []uint32 {
	var out []uint32
	for _, e := range d.inject(port, data) {
		out = append(out, e.Port)
	}
	return out
}

// frame is an Ethernet frame; dst and src are the last bytes of the addresses.
func frame(dst, src byte, etherType uint16, payload ...byte) []byte {
	b := []byte{0, 0, 0, 0, 0, dst, 0, 0, 0, 0, 0, src, byte(etherType >> 8), byte(etherType)}
	return append(b, payload...)
}

// ipv4 is an IPv4 packet to 10.0.d.1; id feeds the selector's hash.
func ipv4(d byte, id uint16) []byte {
	return frame(9, 8, 0x800, 0x45, 0, 0, 20, byte(id>>8), byte(id), 0, 0, 64, 17, 0, 0, 10, 9, 9, 9, 10, 0, d, 1)
}
