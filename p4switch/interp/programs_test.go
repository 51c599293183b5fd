package interp_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// The programs in testdata are compiled with p4c; each test names the
// constructs that it is about.

func load(t testing.TB, name string) *program.Program {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// send processes a packet and returns what came out as "port:hex".
func send(t testing.TB, s *interp.Switch, in interp.Input) []string {
	t.Helper()
	var out []string
	s.Process(in, func(o interp.Output) { out = append(out, fmt.Sprintf("%d:%x", o.Port, o.Data)) })
	return out
}

func want(t testing.TB, got []string, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], " ", "")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestHeaders(t *testing.T) {
	p := load(t, "headers.json")
	// note: err, valid, last
	for _, c := range []struct{ name, in, out string }{
		{"accept", "0900 beef", "1:00 00 00000000 0900 beef"},
		{"too short", "04", "1:01 00 00000000 04"},
		{"one label", "0100 0001 4140 ff", "1:00 01 00000014 0100 00014140 ff"},
		{"pop", "0101 0001 4040 0002 4140 ff", "1:00 01 00000014 0101 00024140 ff"},
		{"push", "0102 0001 4140 ff", "1:00 01 00000014 0102 0004da40 00014140 ff"},
		{"push drops the last", "0102 00010001 00020001 00030101 ff", "1:00 01 00000010 0102 0004da40 00010001 00020001 ff"},
		{"copy", "0103 0001 4040 0002 4140", "1:00 01 00000014 0103 00024140 00024140"},
		{"stack overflow", "0100 00010001 00020001 00030001 00040101", "1:02 01 00000010 0100 00010001 00020001 00030001 00040101"},
		{"union short becomes long", "0200 aa05 bb010203 99", "1:00 02 00000000 0200 cc010205 bb010203 99"},
		{"union long goes", "0200 bb010203 aa07 99", "1:00 02 00000000 0200 aa07 99"},
		{"varbit and payload checksum", "0300 02 1122 0000 0102 03", "1:00 0c 00000000 0300 02 1122 d6ea 0102 03"},
		{"empty varbit", "0300 00 0000 0102", "1:00 0c 00000000 0300 00 fafe 0102"},
		{"varbit too long for the header", "0300 09 112233445566778899 0000", "1:ff 00 00000000 0300 09 112233445566778899 0000"},
		{"varbit beyond the packet", "0300 05 1122", "1:01 00 00000000 0300 05 1122"},
		{"advance", "0402 1122 aabb cc", "1:00 08 00000000 0402 aabb cc"},
		{"advance beyond the packet", "0408 1122", "1:01 00 00000000 0408 1122"},
		{"verify", "0409 1122", "1:03 00 00000000 0409 1122"},
		{"mask in select", "0501 11 aabb", "1:00 08 00000000 0501 aabb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := interp.NewSwitch(p, interp.Config{})
			want(t, send(t, s, interp.Input{Port: 3, Data: unhex(t, c.in)}), c.out)
		})
	}
}

func TestValueSet(t *testing.T) {
	p := load(t, "headers.json")
	s := interp.NewSwitch(p, interp.Config{})
	id, ok := p.ValueSetByName("P.kinds")
	if !ok {
		t.Fatalf("value sets: %+v", p.ValueSets)
	}
	in := interp.Input{Data: unhex(t, "7700 aabb")}
	want(t, send(t, s, in), "1:00 00 00000000 7700 aabb")
	member := [][]program.FieldMatch{{{Value: []byte{0x77}}}}
	if err := s.SetValueSet(id, member); err != nil {
		t.Fatal(err)
	}
	want(t, send(t, s, in), "1:00 08 00000000 7700 aabb")
	got, err := s.ValueSet(id)
	if d := cmp.Diff(member, got); d != "" || err != nil {
		t.Error(d, err)
	}
}

// table makes entries short.
type table struct {
	t *testing.T
	s *interp.Switch
}

func (x table) call(tbl, act string, args ...[]byte) (program.TableID, interp.ActionCall) {
	x.t.Helper()
	id, ok := x.s.Program().TableByName(tbl)
	if !ok {
		x.t.Fatalf("no table %q", tbl)
	}
	a, ok := x.s.Program().ActionByName(id, act)
	if !ok {
		x.t.Fatalf("no action %q", act)
	}
	return id, interp.ActionCall{Action: a, Args: args}
}

func (x table) add(prio int32, m []program.FieldMatch, tbl, act string, args ...[]byte) interp.Handle {
	x.t.Helper()
	id, c := x.call(tbl, act, args...)
	h, err := x.s.Insert(id, interp.Entry{Match: m, Priority: prio, Target: interp.Target{Call: c}})
	if err != nil {
		x.t.Fatal(err)
	}
	return h
}

// request builds a packet of state.p4.
func request(op, a byte, b uint16, c uint32, d string) []byte {
	p := []byte{op, a, byte(b >> 8), byte(b), byte(c >> 24), byte(c >> 16), byte(c >> 8), byte(c)}
	x, _ := hex.DecodeString(strings.Repeat("0", 32-len(d)) + d)
	return append(p, x...)
}

func TestArithmeticHashesRegisters(t *testing.T) {
	p := load(t, "state.json")
	s := interp.NewSwitch(p, interp.Config{})
	// res: op color h16 h32 r s u hits; const_t adds to hits.
	head := func(data []byte) string {
		out := send(t, s, interp.Input{Data: data})
		if len(out) != 1 {
			t.Fatalf("%v, drops %v", out, s.Drops())
		}
		return strings.TrimPrefix(out[0], "0:")
	}
	for _, c := range []struct {
		name string
		in   []byte
		want string
	}{
		{"register", request(1, 3, 0, 5, ""), "01 00 0000 00000000 00000005 00 00 2001"},
		{"register adds up", request(1, 3, 0, 0xffffffff, ""), "01 00 0000 00000000 00000004 00 00 2001"},
		{"register out of range", request(1, 16, 0, 5, ""), "01 00 0000 00000000 00000005 00 00 4001"},
		{"saturating", request(3, 0x80, 1, 0x00010001, "1000000000000000"), "03 00 0001 00010001 000000e0 e4 1c 1001"},
		{"saturating up", request(3, 0x7f, 1, 2, ""), "03 00 0002 00000000 0000001f 7f 1b 2001"},
		{"saturating down", request(3, 5, 1, 2, ""), "03 00 0002 00000000 00000001 69 00 2001"},
	} {
		if got, w := head(c.in), strings.ReplaceAll(c.want, " ", ""); got[:len(w)] != w {
			t.Errorf("%s: got %s, want %s", c.name, got[:len(w)], w)
		}
	}
	// 128-bit shift and subtraction.
	if got, w := head(request(3, 5, 1, 2, "f0000000000000000000000000000001"))[48:], "0000000000000000000000000000000f"; got != w {
		t.Errorf("d = %s, want %s", got, w)
	}
	got := head(request(2, 0x35, 0x6162, 0x31323334, "61626364656667686162636465666768"))
	xor := (0x3132^0x3334)%100 + 10
	sum := crc32.ChecksumIEEE([]byte("abcdefghabcdefghab"))
	if w := fmt.Sprintf("%08x%08x", sum, xor); got[8:24] != w {
		t.Errorf("crc32 and xor16: %s, want %s", got[8:24], w)
	}
	reg, _ := p.RegisterByName("In.sums")
	v, err := s.Register(reg, 3)
	if d := cmp.Diff([]byte{0, 0, 0, 4}, v); d != "" || err != nil {
		t.Error(d, err)
	}
	if _, err := s.Register(reg, 16); err == nil {
		t.Error("register 16 of 16 exists")
	}
	ops, _ := p.CounterByName("In.ops")
	pkts, bytes, err := s.Counter(ops, 1)
	if pkts != 3 || bytes != 72 || err != nil {
		t.Errorf("counter: %d packets, %d bytes, %v", pkts, bytes, err)
	}
}

func TestTableKindsAndConstEntries(t *testing.T) {
	s := interp.NewSwitch(load(t, "state.json"), interp.Config{})
	x := table{t, s}
	x.add(0, []program.FieldMatch{{Value: []byte{9}}, {Value: []byte{1, 2}}}, "In.exact_t", "In.forward", []byte{5})
	x.add(0, []program.FieldMatch{{Value: unhex(t, "20010db8000000000000000000000000"), PrefixLen: 32}}, "In.lpm_t", "In.metered", []byte{6})
	x.add(0, []program.FieldMatch{{Value: unhex(t, "20010db8000100000000000000000000"), PrefixLen: 48}}, "In.lpm_t", "In.metered", []byte{7})
	x.add(5, []program.FieldMatch{{Value: []byte{1}, Mask: []byte{1}}, {Value: []byte{0}, High: []byte{0x10}}, {Any: true}}, "In.ternary_t", "In.note", []byte{2})
	x.add(9, []program.FieldMatch{{Any: true}, {Value: []byte{8}, High: []byte{9}}, {Value: []byte{9}}}, "In.ternary_t", "In.note", []byte{4})
	for _, c := range []struct {
		in         []byte
		port, hits string
	}{
		{request(9, 0, 0x0102, 0, ""), "5", "4001"},
		{request(9, 0, 0x0103, 0, ""), "0", "4001"},
		{request(9, 0, 0, 0, "20010db8000200000000000000000009"), "6", "4001"},
		{request(9, 0, 0, 0, "20010db8000100000000000000000009"), "7", "4001"},
		{request(9, 1, 7, 0, ""), "0", "2003"},
		{request(9, 1, 8, 0, ""), "0", "2005"},
		{request(8, 1, 8, 0, ""), "0", "2003"},
		{request(9, 0x81, 0x11, 0, ""), "0", "1001"},
	} {
		out := send(t, s, interp.Input{Data: c.in})
		if len(out) != 1 || !strings.HasPrefix(out[0], c.port+":") || out[0][len(c.port)+1:][28:32] != c.hits {
			t.Errorf("%x: %v, want port %s, hits %s", c.in, out, c.port, c.hits)
		}
	}
	id, c := x.call("In.const_t", "In.note", []byte{1})
	if _, err := s.Insert(id, interp.Entry{Match: []program.FieldMatch{{Any: true}}, Target: interp.Target{Call: c}}); err == nil {
		t.Error("insert into constant entries")
	}
	if err := s.SetDefault(id, interp.Target{Call: c}); err == nil {
		t.Error("constant default changed")
	}
	n := 0
	for h, e := range s.Entries(id) {
		if n++; !e.Const {
			t.Error("entry is not constant")
		}
		if err := s.Delete(id, h); err == nil {
			t.Error("constant entry deleted")
		}
	}
	if n != 3 {
		t.Errorf("%d constant entries", n)
	}
	lpm, _ := s.Program().TableByName("In.lpm_t")
	for h, e := range s.Entries(lpm) {
		pkts, bytes, err := s.DirectCounter(lpm, h)
		if pkts != 1 || bytes != 24 || err != nil {
			t.Errorf("%+v: %d packets, %d bytes, %v", e.Match, pkts, bytes, err)
		}
	}
}

func TestMeters(t *testing.T) {
	p := load(t, "state.json")
	s := interp.NewSwitch(p, interp.Config{})
	id, _ := p.MeterByName("In.rate")
	color := func(now int64) string {
		return send(t, s, interp.Input{Data: request(4, 2, 0, 0, ""), Now: now})[0][4:6]
	}
	if c := color(0); c != "00" {
		t.Errorf("unconfigured meter: %s", c)
	}
	// 1000 and 2000 packets/s with bursts of 2 and 4.
	if err := s.SetMeter(id, 2, interp.MeterConfig{CIR: 1000, CBurst: 2, PIR: 2000, PBurst: 4}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range 6 {
		got = append(got, color(0))
	}
	got = append(got, color(1_000_000), color(1_000_000), color(1_000_000)) // a millisecond gives 1 and 2 tokens
	if d := cmp.Diff([]string{"00", "00", "01", "01", "02", "02", "00", "01", "02"}, got); d != "" {
		t.Error(d)
	}
	if err := s.SetMeter(id, 2, interp.MeterConfig{CIR: 5, PIR: 4}); err == nil {
		t.Error("committed rate above the peak rate")
	}
	x := table{t, s}
	h := x.add(0, []program.FieldMatch{{Any: true}}, "In.lpm_t", "In.metered", []byte{6})
	lpm, _ := p.TableByName("In.lpm_t")
	if err := s.SetDirectMeter(lpm, h, interp.MeterConfig{CIR: 1, CBurst: 24, PIR: 1, PBurst: 30}); err != nil {
		t.Fatal(err)
	}
	got = nil
	for range 2 {
		got = append(got, send(t, s, interp.Input{Data: request(5, 0, 0, 0, "")})[0])
	}
	if got[0][4:6] != "00" || got[1][4:6] != "02" {
		t.Errorf("direct meter: %v", got)
	}
}

func TestSelector(t *testing.T) {
	p := load(t, "state.json")
	s := interp.NewSwitch(p, interp.Config{})
	x := table{t, s}
	tbl, c := x.call("In.sel_t", "In.forward", []byte{0})
	pr, ok := p.ProfileByName("In.sel")
	if !ok {
		t.Fatal(p.Profiles)
	}
	var mem []interp.MemberID
	for i := range byte(4) {
		c.Args = [][]byte{{i + 1}}
		m, err := s.AddMember(pr, c)
		if err != nil {
			t.Fatal(err)
		}
		mem = append(mem, m)
	}
	g, err := s.CreateGroup(pr)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetGroup(pr, g, mem); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Insert(tbl, interp.Entry{Match: []program.FieldMatch{{Value: []byte{6}}}, Target: interp.Target{Kind: interp.ByGroup, Group: g}}); err != nil {
		t.Fatal(err)
	}
	ports := func() map[string]int {
		n := map[string]int{}
		for i := range uint32(256) {
			for _, o := range send(t, s, interp.Input{Data: request(6, 0, 1, i, "")}) {
				port, _, _ := strings.Cut(o, ":")
				n[port]++
			}
		}
		return n
	}
	all := ports()
	if all["1"]+all["2"]+all["3"]+all["4"] != 256 || len(all) < 2 {
		t.Errorf("spread over members: %v", all)
	}
	if err := s.SetMemberLive(pr, mem[1], false); err != nil {
		t.Fatal(err)
	}
	if n := ports(); n["2"] != 0 || n["1"]+n["3"]+n["4"] != 256 {
		t.Errorf("with member 2 dead: %v", n)
	}
	for _, m := range mem {
		if err := s.SetMemberLive(pr, m, false); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(map[string]int{"0": 256}, ports()); d != "" {
		t.Error("all dead acts as a miss:", d)
	}
	if err := s.DeleteMember(pr, mem[0]); err == nil {
		t.Error("member in use deleted")
	}
	if err := s.DeleteGroup(pr, g); err == nil {
		t.Error("group in use deleted")
	}
}

func TestReplication(t *testing.T) {
	p := load(t, "replicate.json")
	var log []string
	var digests []string
	s := interp.NewSwitch(p, interp.Config{
		MaxPasses: 20,
		Log:       func(l interp.LogRecord) { log = append(log, l.Text) },
		Digest:    func(d interp.DigestRecord) { digests = append(digests, fmt.Sprintf("%x", d.Fields)) },
	})
	rep := []interp.Replica{{Port: 7, Instance: 1}, {Port: 8, Instance: 2}}
	if err := s.SetCloneSession(5, interp.CloneSession{Replicas: rep}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetMulticastGroup(3, rep); err != nil {
		t.Fatal(err)
	}
	// e: kind rid len kept
	for _, c := range []struct {
		name string
		in   string
		out  []string
		drop interp.DropReason
	}{
		{"unicast", "00000002 ee", []string{"2:00 00 0005 00000000 00000002 ee"}, 0},
		{"I2E clone is the packet as it came", "01040002 ee", []string{
			"7:01 01 0005 abcd0004 01040002 ee", "8:01 02 0005 abcd0004 01040002 ee", "2:00 00 0005 abcd0004 01ff0002 ee"}, 0},
		{"multicast", "02030000 ee", []string{"7:05 01 0005 00000000 02030000 ee", "8:05 02 0005 00000000 02030000 ee"}, 0},
		{"multicast to nobody", "02040000 ee", nil, interp.DropNoGroup},
		{"resubmit", "03050002 ee", []string{"2:00 00 0005 00000005 03050002 ee"}, 0},
		{"recirculate", "04000002 ee", []string{"9:00 00 0005 00000000 04000002 ee"}, 0},
		{"E2E clone of a dropped packet", "05000002 ee", []string{
			"7:02 01 000d 00000007 00 00 0005 00000000 05000002 ee"}, interp.DropEgress},
		{"digest", "06000002", []string{"2:00 00 0004 00000000 06000002"}, 0},
		{"drop", "07000002", nil, interp.DropIngress},
		{"endless resubmit", "08000002", nil, interp.DropPasses},
		{"truncate", "090a0002 ee", []string{"2:00 00 0005 00000000 090a"}, 0},
		{"port 511", "000001ff ee", nil, interp.DropIngress},
		{"assert", "0a010002", nil, interp.DropAssert},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := s.Drops()
			got := send(t, s, interp.Input{Port: 1, Data: unhex(t, c.in)})
			if c.name == "E2E clone of a dropped packet" {
				// The clone runs through egress with its headers as they were.
				want(t, got, "7:00 00 0005 00000000 05000002 ee", "8:00 00 0005 00000000 05000002 ee")
			} else {
				want(t, got, c.out...)
			}
			after := s.Drops()
			n := after[c.drop] - before[c.drop]
			if c.out == nil && n != 1 {
				t.Errorf("drops for %v: %d; all %v", c.drop, n, after)
			}
		})
	}
	if d := cmp.Diff([]string{"[06 0002]"}, digests); d != "" {
		t.Error(d)
	}
	if !slices.Contains(log, "op 7 n 0") {
		t.Errorf("log: %q", log)
	}
}

func TestCloneTruncationAndMissingSession(t *testing.T) {
	s := interp.NewSwitch(load(t, "replicate.json"), interp.Config{})
	send(t, s, interp.Input{Data: unhex(t, "01040002")})
	if d := s.Drops(); d[interp.DropNoSession] != 1 {
		t.Errorf("drops %v", d)
	}
	if err := s.SetCloneSession(5, interp.CloneSession{Replicas: []interp.Replica{{Port: 7}}, Truncate: 10}); err != nil {
		t.Fatal(err)
	}
	var got []string
	s.Process(interp.Input{Data: unhex(t, "01040002"), Length: 1500}, func(o interp.Output) {
		got = append(got, fmt.Sprintf("%d:%x/%d", o.Port, o.Data, o.Length))
	})
	want(t, got, "7:010005dcabcd00040104/10", "2:000005dcabcd000401ff0002/1508")
}

func TestVirtualPayload(t *testing.T) {
	p := load(t, "headers.json")
	real := interp.NewSwitch(p, interp.Config{})
	virt := interp.NewSwitch(p, interp.Config{})
	data := unhex(t, "0300 02 1122 0000 0102")
	var a, b interp.Output
	keep := func(to *interp.Output) func(interp.Output) {
		return func(o interp.Output) { *to = o; to.Data = slices.Clone(o.Data) }
	}
	real.Process(interp.Input{Data: append(slices.Clone(data), make([]byte, 1000)...)}, keep(&a))
	virt.Process(interp.Input{Data: data, Length: len(data) + 1000}, keep(&b))
	if a.Length != b.Length || !slices.Equal(a.Data[:len(b.Data)], b.Data) {
		t.Errorf("real %d %x\nvirtual %d %x", a.Length, a.Data[:len(b.Data)], b.Length, b.Data)
	}
}

// TestUnions: at most one member of a union is valid, and none after the invalidation of any (P4-16, section 8.20).
func TestUnions(t *testing.T) {
	p := load(t, "unions.json")
	for _, c := range []struct{ name, in, out string }{
		{"setInvalid of the other member", "0101 aa 99", "1:0101 99"},
		{"setInvalid of the valid member", "0102 bbbb 99", "1:0102 99"},
		{"an invalid header into the other member", "0201 aa 99", "1:0201 99"},
		{"an invalid header into the valid member", "0202 bbbb 99", "1:0202 99"},
		{"a copy", "0301 aa 99", "1:0301 aa aa 99"},
		{"a copy of the last member", "0302 bbbb 99", "1:0302 bbbb bbbb 99"},
		{"an invalid union", "0401 aa 99", "1:0401 99"},
		{"another union's invalid member into the same", "0501 aa 99", "1:0501 99"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := interp.NewSwitch(p, interp.Config{})
			want(t, send(t, s, interp.Input{Port: 3, Data: unhex(t, c.in)}), c.out)
		})
	}
}

// TestNoParserError: a program of an old compiler, which has no parser_error, goes on after a parser error.
func TestNoParserError(t *testing.T) {
	json, err := os.ReadFile("testdata/unions.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(bytes.ReplaceAll(json, []byte(`"parser_error"`), []byte(`"former"`)))
	if err != nil {
		t.Fatal(err)
	}
	s := interp.NewSwitch(p, interp.Config{})
	want(t, send(t, s, interp.Input{Data: unhex(t, "0001")}), "1:0001")
}
