package p4runtime

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/testing/protocmp"
)

// field is testdata/field.p4 in a switch, with its aliases for requests.
type field struct {
	*device
	config *p4.ForwardingPipelineConfig
	ids    *strings.Replacer
	stream *session
}

func newField(t *testing.T, change func(*p4config.P4Info)) *field {
	t.Helper()
	return newProgram(t, "testdata/field", change)
}

// newProgram starts a switch with a compiled program: path without .json or .p4info.txtpb.
func newProgram(t *testing.T, path string, change func(*p4config.P4Info)) *field {
	t.Helper()
	json, err := os.ReadFile(path + ".json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path + ".p4info.txtpb")
	if err != nil {
		t.Fatal(err)
	}
	info := &p4config.P4Info{}
	if err := prototext.Unmarshal(text, info); err != nil {
		t.Fatal(err)
	}
	var ids []string
	add := func(p *p4config.Preamble) { ids = append(ids, "$"+p.GetAlias()+" ", fmt.Sprint(p.GetId(), " ")) }
	for _, x := range info.GetTables() {
		add(x.GetPreamble())
	}
	for _, x := range info.GetActions() {
		add(x.GetPreamble())
	}
	for _, x := range info.GetDigests() {
		add(x.GetPreamble())
	}
	if change != nil {
		change(info)
	}
	f := &field{device: newDevice(t, nil), config: &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: json}, ids: strings.NewReplacer(ids...)}
	f.stream = f.primary()
	if err := f.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, f.config)); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *field) entity(text string) *p4.Entity { return entity(f.t, f.ids.Replace(text)) }

func (f *field) update(typ p4.Update_Type, text string) error {
	return f.write(batch(&p4.Update{Type: typ, Entity: f.entity(text)}))
}

func (f *field) must(typ p4.Update_Type, text string) {
	f.t.Helper()
	if err := f.update(typ, text); err != nil {
		f.t.Fatalf("%v %s: %v", typ, text, err)
	}
}

const (
	exact2 = `table_entry { table_id: $ex match { field_id: 1 exact { value: "\x02" } } `
	to7    = `action { action { action_id: $to params { param_id: 1 value: "\x07" } } } `
)

// TestInitialEntries: a table's entries without const, as P4Runtime 1.5 has preinitialized tables: a controller
// changes and deletes them, and adds others up to the size that P4Info states.
func TestInitialEntries(t *testing.T) {
	f := newField(t, nil)
	for _, e := range f.mustRead(f.ids.Replace(`table_entry { table_id: $ex }`)) {
		if e.GetTableEntry().GetIsConst() {
			t.Errorf("const: %v", e)
		}
	}
	f.must(p4.Update_MODIFY, exact2+to7+`}`)
	if got := f.outPorts(3, frame(1, 1, 2)); !slices.Equal(got, []uint32{7}) {
		t.Errorf("after MODIFY: ports %v, want 7", got)
	}
	f.must(p4.Update_DELETE, exact2+`}`)
	if got := f.outPorts(3, frame(1, 1, 2)); !slices.Equal(got, []uint32{1}) {
		t.Errorf("after DELETE: ports %v, want the default's 1", got)
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.OK, codes.ResourceExhausted} { // 5 in all
		err := f.update(p4.Update_INSERT, strings.Replace(exact2+to7+`}`, "x02", fmt.Sprintf("x%02x", 16+i), 1))
		wantUpdate(t, err, want)
	}
	// Of three entries the first has priority 3: a controller's with 4 is before it, one with 2 behind it.
	dst := []byte{2, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 1, 0, 2}
	mark := func() byte { return f.inject(3, dst)[0].Data[10] }
	const ternary = `table_entry { table_id: $te match { field_id: 2 ternary { value: "\x02" mask: "\xff\xff" } } priority: %d ` +
		`action { action { action_id: $mark params { param_id: 1 value: "\x20" } } } }`
	if got := mark(); got != 1 {
		t.Errorf("mark %d, want 1", got)
	}
	f.must(p4.Update_MODIFY, fmt.Sprintf(ternary, 2))
	if got := mark(); got != 1 {
		t.Errorf("mark %d, want 1", got)
	}
	f.must(p4.Update_INSERT, fmt.Sprintf(ternary, 4))
	if got := mark(); got != 0x20 {
		t.Errorf("mark %#x, want 0x20", got)
	}
	// What a controller did to them stays when the program is pushed again with its state.
	push := push(p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, f.config)
	if err := f.setPipeline(push); err != nil {
		t.Fatal(err)
	}
	if got := f.outPorts(3, frame(1, 1, 2)); !slices.Equal(got, []uint32{1}) || mark() != 0x20 {
		t.Errorf("after RECONCILE_AND_COMMIT: ports %v, mark %#x", got, mark())
	}
	// Another switch of the same program has the entries as the program has them.
	if got := newField(t, nil).outPorts(3, frame(1, 1, 2)); !slices.Equal(got, []uint32{2}) {
		t.Errorf("another switch: ports %v, want 2", got)
	}
}

// TestNoBits: the value of a key field or parameter of type bit<0> is 0, as every zero is written.
func TestNoBits(t *testing.T) {
	f := newProgram(t, "../interp/testdata/zero", nil)
	const entry = `table_entry { table_id: $by_both match { field_id: 1 exact { value: "\x01" } } match { field_id: 2 exact { value: "%s" } } ` +
		`action { action { action_id: $out_ params { param_id: 1 value: "%s" } params { param_id: 2 value: "\x03" } } } }`
	for _, c := range []struct {
		key, parameter string
		want           codes.Code
	}{{"", `\x00`, codes.InvalidArgument}, {`\x00`, "", codes.InvalidArgument}, {`\x01`, `\x00`, codes.InvalidArgument},
		{`\x00`, `\x01`, codes.InvalidArgument}, {`\x00`, `\x00`, codes.OK}, {`\x00\x00`, `\x00`, codes.AlreadyExists}} {
		wantUpdate(t, f.update(p4.Update_INSERT, fmt.Sprintf(entry, c.key, c.parameter)), c.want)
	}
	want := []*p4.Entity{f.entity(fmt.Sprintf(entry, `\x00`, `\x00`))}
	if diff := sameEntities(want, f.mustRead(f.ids.Replace(`table_entry { table_id: $by_both }`))); diff != "" {
		t.Error(diff)
	}
	if got := f.outPorts(0, append(make([]byte, 14), 1, 5)); !slices.Equal(got, []uint32{3}) {
		t.Errorf("ports %v, want 3", got)
	}
}

// TestInitialEntriesConst: with is_const_table, or of a P4Info that says nothing, they are constant.
func TestInitialEntriesConst(t *testing.T) {
	for _, constant := range []bool{true, false} {
		f := newField(t, func(info *p4config.P4Info) {
			for _, x := range info.GetTables() {
				x.HasInitialEntries, x.IsConstTable = false, constant
			}
		})
		wantUpdate(t, f.update(p4.Update_MODIFY, exact2+to7+`}`), codes.PermissionDenied)
		wantUpdate(t, f.update(p4.Update_DELETE, exact2+`}`), codes.PermissionDenied)
		wantUpdate(t, f.update(p4.Update_INSERT, strings.Replace(exact2+to7+`}`, "x02", "x20", 1)), codes.PermissionDenied)
	}
}

// wantUpdate checks the code of a Write's only update.
func wantUpdate(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if want == codes.OK {
		wantCode(t, err, want)
		return
	}
	wantCodes(t, err, want)
}

// TestDigestTypes: digests of tuples and single values, whose names differ between P4Info and JSON; of headers, valid
// and invalid, from two places; and of a type that is translated to strings.
func TestDigestTypes(t *testing.T) {
	f := newField(t, nil)
	for _, name := range []string{"digest_0", "digest_1", "learn_t", "hop_learn_t"} {
		f.must(p4.Update_INSERT, `digest_entry { digest_id: $`+name+` config { } }`)
	}
	const eth = `header:{is_valid:true bitstrings:"\x01" bitstrings:"\x09\x00" bitstrings:"\x99"}`
	for _, c := range []struct {
		op   byte
		want string
	}{
		{1, `tuple:{members:{bitstring:"\x07"} members:{bitstring:"\x99"}}`},
		{2, `bitstring:"\x99"`},
		{3, `struct:{members:{` + eth + `} members:{header:{is_valid:true bitstrings:"\x03" bitstrings:"\x07"}}}`},
		{4, `struct:{members:{` + eth + `} members:{header:{}}}`},
		{5, `struct:{members:{bitstring:"153"} members:{bitstring:"\x07"}}`},
	} {
		f.inject(1, frame(1, 2, 0x99, c.op, 7))
		got := f.stream.mustRecv().GetDigest()
		if len(got.GetData()) != 1 {
			t.Fatalf("op %d: %v, want one message", c.op, got)
		}
		want := &p4.P4Data{}
		if err := prototext.Unmarshal([]byte(c.want), want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.GetData()[0], protocmp.Transform()); diff != "" {
			t.Errorf("op %d: %s", c.op, diff)
		}
	}
}

// TestDefaultDirect: the direct counter and meter of a default entry are as those of other entries.
func TestDefaultDirect(t *testing.T) {
	f := newField(t, nil)
	color := func() byte { return f.inject(3, frame(1, 1, 9))[0].Data[11] } // misses te
	if got := color(); got != 0 {
		t.Errorf("colour %d without a meter's configuration, want 0", got)
	}
	const key = `{ table_id: $te is_default_action: true `
	read := func() (packets, cir int64) {
		t.Helper()
		c := f.mustRead(f.ids.Replace(`direct_counter_entry { table_entry ` + key + `} }`))
		m := f.mustRead(f.ids.Replace(`direct_meter_entry { table_entry ` + key + `} }`))
		if len(c) != 1 || len(m) != 1 {
			t.Fatalf("%v and %v, want one of each", c, m)
		}
		return c[0].GetDirectCounterEntry().GetData().GetPacketCount(), m[0].GetDirectMeterEntry().GetConfig().GetCir()
	}
	if packets, cir := read(); packets != 1 || cir != 0 {
		t.Errorf("after one packet: %d packets, rate %d", packets, cir)
	}
	f.must(p4.Update_MODIFY, `direct_counter_entry { table_entry `+key+`} data { packet_count: 40 byte_count: 4000 } }`)
	f.must(p4.Update_MODIFY, `direct_meter_entry { table_entry `+key+`} config { cir: 1 cburst: 1 pir: 1 pburst: 1 } }`)
	if a, b := color(), color(); a != 0 || b != 2 {
		t.Errorf("colours %d and %d of two packets where one is let through, want 0 and 2", a, b)
	}
	entry := f.mustRead(f.ids.Replace(`table_entry ` + key + `counter_data {} meter_config {} }`))[0].GetTableEntry()
	if entry.GetCounterData().GetPacketCount() != 42 || entry.GetMeterConfig().GetCir() != 1 {
		t.Errorf("read %v, want 42 packets and a meter", entry)
	}
	if err := f.setPipeline(push(p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, f.config)); err != nil {
		t.Fatal(err)
	}
	if packets, cir := read(); packets != 42 || cir != 1 {
		t.Errorf("after RECONCILE_AND_COMMIT: %d packets, rate %d", packets, cir)
	}
	// A MODIFY of the default entry without a meter returns the meter to its default, and keeps the counter.
	f.must(p4.Update_MODIFY, `table_entry `+key+`action { action { action_id: $mark params { param_id: 1 value: "\x05" } } } }`)
	color()
	if got := color(); got != 0 {
		t.Errorf("colour %d, want 0", got)
	}
	wantUpdate(t, f.update(p4.Update_MODIFY, `direct_counter_entry { table_entry { table_id: $te is_default_action: true priority: 2 } data {} }`), codes.InvalidArgument)
}

// TestMulticastGroupBound: a group that no packet can name.
func TestMulticastGroupBound(t *testing.T) {
	f := newField(t, nil)
	for id, want := range map[int]codes.Code{65535: codes.OK, 65536: codes.InvalidArgument, 70000: codes.InvalidArgument} {
		text := fmt.Sprintf(`packet_replication_engine_entry { multicast_group_entry { multicast_group_id: %d } }`, id)
		wantUpdate(t, f.update(p4.Update_INSERT, text), want)
	}
}
