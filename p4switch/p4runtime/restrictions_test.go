package p4runtime

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// restrictedConfig is the pipeline of the tests with annotations.
func restrictedConfig(t testing.TB) *p4.ForwardingPipelineConfig {
	t.Helper()
	c := config(t)
	info := c.GetP4Info()
	table := func(name string) *p4config.Table {
		for _, x := range info.GetTables() {
			if x.GetPreamble().GetAlias() == name {
				return x
			}
		}
		t.Fatalf("no table %s", name)
		return nil
	}
	field := func(of, name, annotation string) {
		for _, f := range table(of).GetMatchFields() {
			if f.GetName() == name {
				f.Annotations = append(f.Annotations, annotation)
			}
		}
	}
	param := func(of, name, annotation string) {
		for _, a := range info.GetActions() {
			for _, q := range a.GetParams() {
				if a.GetPreamble().GetAlias() == of && q.GetName() == name {
					q.Annotations = append(q.Annotations, annotation)
				}
			}
		}
	}
	acl := table("acl").GetPreamble()
	acl.Annotations = append(acl.Annotations,
		`@entry_restriction("hdr.ethernet.type::mask != 0 -> hdr.ethernet.src::mask == -1; // both" `+
			`"std.ingress_port::low >= 1;")`)
	smac := table("smac").GetPreamble()
	smac.Annotations = append(smac.Annotations, `@entry_restriction("hdr.ethernet.src != 0")`)
	for _, a := range info.GetActions() {
		if a.GetPreamble().GetAlias() == "forward" || a.GetPreamble().GetAlias() == "remember" {
			a.Preamble.Annotations = append(a.Preamble.Annotations,
				map[string]string{"forward": `@action_restriction("port != 0")`,
					"remember": `@action_restriction("index != 4095")`}[a.GetPreamble().GetAlias()])
		}
	}
	field("mac", "hdr.ethernet.dst", "@refers_to(smac , hdr . ethernet . src)")
	param("count_forward", "port", "@refers_to(hop , meta . trusted)")
	param("remember", "index", "@refers_to(hop , meta . trusted)")
	param("remember", "value", "@refers_to(hop , hdr . ethernet . type)")
	param("tag", "type", "@refers_to(smac , hdr . ethernet . src)")
	param("replicate", "group", "@refers_to(builtin : : multicast_group_table , multicast_group_id)")
	field("smac", "hdr.ethernet.src", "@referenced_by(builtin : : multicast_group_table , replica . port)")
	param("mirror", "session", "@refers_to(absent_table , field)") // passed over
	return c
}

// restricted runs restrictedConfig.
func restricted(d *device) {
	d.t.Helper()
	d.primary()
	if err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		restrictedConfig(d.t))); err != nil {
		d.t.Fatal(err)
	}
}

func smacEntry(v byte) string {
	return fmt.Sprintf(`table_entry { table_id: $smac match { field_id: 1 exact { value: "\x%02x" } }
		action { action { action_id: $learn } } }`, v)
}

func macTo(v, port byte) string {
	return fmt.Sprintf(`table_entry { table_id: $mac match { field_id: 1 exact { value: "\x%02x" } }
		action { action { action_id: $count_forward params { param_id: 1 value: "\x%02x" } } } }`, v, port)
}

func hopEntry(trusted, typ, member byte) string {
	return fmt.Sprintf(`table_entry { table_id: $hop match { field_id: 1 exact { value: "\x%02x" } }
		match { field_id: 2 exact { value: "\x%02x" } } action { action_profile_member_id: %d } }`,
		trusted, typ, member)
}

func hopMember(id, typ byte) string {
	return fmt.Sprintf(`action_profile_member { action_profile_id: $hops member_id: %d
		action { action_id: $tag params { param_id: 1 value: "\x%02x" } } }`, id, typ)
}

func extraDefault(action string, params ...byte) string {
	text := ""
	for i, v := range params {
		text += fmt.Sprintf(` params { param_id: %d value: "\x%02x" }`, i+1, v)
	}
	return fmt.Sprintf(`table_entry { table_id: $extra is_default_action: true
		action { action { action_id: $%s%s } } }`, action, text)
}

func multicastTo(id int, ports ...byte) string {
	text := ""
	for _, p := range ports {
		text += fmt.Sprintf(` replicas { port: "\x%02x" }`, p)
	}
	return fmt.Sprintf(`packet_replication_engine_entry { multicast_group_entry { multicast_group_id: %d%s } }`, id,
		text)
}

// why is the text of the first update that failed, with its code.
func why(err error) string {
	for _, d := range status.Convert(err).Details() {
		if e, ok := d.(*p4.Error); ok && e.GetCanonicalCode() != int32(codes.OK) &&
			e.GetCanonicalCode() != int32(codes.Aborted) {
			return codes.Code(e.GetCanonicalCode()).String() + ": " + strings.TrimPrefix(e.GetMessage(), "switch: ")
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestRestrictions(t *testing.T) {
	aclEntry := func(match string) string {
		return `table_entry { table_id: $acl priority: 7 ` + match + ` action { action { action_id: $pass } } }`
	}
	const in, typ = `match { field_id: 2 range { low: "\x01" high: "\x04" } }`,
		`match { field_id: 3 optional { value: "\x12" } }`
	onBoth(t, nil, func(t *testing.T, d *device) {
		restricted(d)
		for i, step := range []struct {
			update *p4.Update
			want   string // "": it is done
		}{
			{insert(t, aclEntry(in)), ""},
			{insert(t, aclEntry(in+` `+typ)),
				`INVALID_ARGUMENT: table In.acl: @entry_restriction: "hdr.ethernet.type::mask != 0 -> ` +
					`hdr.ethernet.src::mask == -1" must hold; hdr.ethernet.type is 0x12 &&& 0xffff, ` +
					`hdr.ethernet.src is not matched`},
			{insert(t, aclEntry(
				`match { field_id: 1 ternary { value: "\x08" mask: "\xff\xff\xff\xff\xff\xff" } } `+typ)),
				`"std.ingress_port::low >= 1" must hold; std.ingress_port is 0x0..0x1ff`},
			{remove(t, aclEntry(typ)), `NOT_FOUND`}, // not the constraint
			{insert(t, `table_entry { table_id: $route
				match { field_id: 1 lpm { value: "\x0a\x00\x00\x00" prefix_len: 8 } }
				action { action_profile_action_set {
				action_profile_actions { weight: 1 action { action_id: $forward params { param_id: 1 value: "\x01" } } }
				action_profile_actions { weight: 1 action { action_id: $forward params { param_id: 1 value: "\x00" } } }
				} } }`),
				`INVALID_ARGUMENT: table In.route: action In.forward: @action_restriction: "port != 0" must hold; ` +
					`port is 0x0`},

			{insert(t, macTo(8, 1)),
				`INVALID_ARGUMENT: table In.mac: @refers_to: table In.smac has no entry with hdr.ethernet.src ` +
					`0x08; insert it first`},
			{insert(t, smacEntry(8)), ""},
			{insert(t, macTo(8, 1)), `@refers_to: table In.hop has no entry with meta.trusted 0x01`},
			{insert(t, hopMember(3, 9)),
				`action profile In.hops: member 3: @refers_to: table In.smac has no entry with hdr.ethernet.src 0x09`},
			{insert(t, hopMember(3, 8)), ""},
			{insert(t, hopEntry(1, 5, 3)), ""},
			{insert(t, macTo(8, 1)), ""},
			{insert(t, macTo(0, 1)), ""}, // smac 0 is forbidden, so it needs no entry
			{modify(t, macTo(8, 2)), `table In.hop has no entry with meta.trusted 0x02`},

			{modify(t, extraDefault("remember", 1, 6)),
				`table In.hop has no entry with meta.trusted 0x01, hdr.ethernet.type 0x06`},
			{modify(t, extraDefault("remember", 1, 5)), ""},
			{modify(t, extraDefault("replicate", 4)),
				`builtin::multicast_group_table has no entry with multicast_group_id 0x04`},
			{insert(t, multicastTo(4, 8, 9)),
				`multicast group: @refers_to: table In.smac has no entry with hdr.ethernet.src 0x00000009`},
			{insert(t, multicastTo(4, 8)), ""},

			{remove(t, smacEntry(8)),
				`FAILED_PRECONDITION: table In.smac: @refers_to: 3 entries or members refer to hdr.ethernet.src ` +
					`0x08; delete them first`},
			{remove(t, hopEntry(1, 5, 3)), `FAILED_PRECONDITION: table In.hop: @refers_to: 2 entries`},
			{modify(t, extraDefault("replicate", 4)), ""},
			{remove(t, multicastTo(4)),
				`FAILED_PRECONDITION: multicast group: @refers_to: 1 entries or members refer to multicast_group_id`},
			{insert(t, hopEntry(1, 6, 3)), ""}, // another with the same meta.trusted
			{remove(t, hopEntry(1, 5, 3)), ""},
			{remove(t, hopEntry(1, 6, 3)), `FAILED_PRECONDITION`},
			{remove(t, macTo(8, 1)), ""}, {remove(t, macTo(0, 1)), ""},
			{remove(t, hopEntry(1, 6, 3)), ""},
			{remove(t, hopMember(3, 8)), ""},
			{modify(t, `table_entry { table_id: $extra is_default_action: true }`), ""},
			// the group's replica
			{remove(t, smacEntry(8)), `FAILED_PRECONDITION: table In.smac: @refers_to: 1 entries`},
			{remove(t, multicastTo(4)), ""},
			{remove(t, smacEntry(8)), ""},
		} {
			got := strings.ReplaceAll(strings.ToUpper(why(d.write(batch(step.update)))), "INVALIDARGUMENT",
				"INVALID_ARGUMENT")
			got = strings.NewReplacer("FAILEDPRECONDITION", "FAILED_PRECONDITION", "NOTFOUND", "NOT_FOUND").Replace(got)
			if want := strings.ToUpper(step.want); want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("step %d, %v: %s; want %s", i, step.update, got, want)
			}
		}
	})
}

// TestUnrestricted: with annotations that mean nothing, what they forbid is done, and even wrong ones are accepted.
func TestUnrestricted(t *testing.T) {
	onBoth(t, func(c *Config) { c.Unrestricted = true }, func(t *testing.T, d *device) {
		restricted(d)
		d.mustWrite(insert(t, macTo(8, 1)), insert(t, multicastTo(4, 8)), modify(t, extraDefault("remember", 7, 7)))
		c := restrictedConfig(t)
		c.GetP4Info().GetTables()[0].GetPreamble().Annotations = []string{`@entry_restriction("nonsense")`}
		if err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY, c)); err != nil {
			t.Error(err)
		}
	})
}

// TestBadRestrictions: a constraint that has no meaning is refused with the pipeline.
func TestBadRestrictions(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		d.primary()
		for annotation, want := range map[string]string{
			`@entry_restriction("absent == 1")`: `p4info: table In.mac: @entry_restriction: ` +
				`there is no key field absent`,
			`@entry_restriction(unquoted)`: `quotation marks`,
		} {
			c := config(t)
			c.GetP4Info().GetTables()[0].GetPreamble().Annotations = []string{annotation}
			err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT, c))
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", annotation, err, want)
			}
		}
	})
}

// TestReconcileRestricted: what was written before is held against the new program's annotations, in whatever order it
// comes.
func TestReconcileRestricted(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		restricted(d)
		entries := []*p4.Update{insert(t, smacEntry(8)), insert(t, hopMember(3, 8)), insert(t, hopEntry(1, 5, 3)),
			insert(t, macTo(8, 1)), insert(t, multicastTo(4, 8))}
		d.mustWrite(entries...)
		again := push(p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, restrictedConfig(t))
		if err := d.setPipeline(again); err != nil {
			t.Fatal(err)
		}
		if got := why(d.write(batch(remove(t, smacEntry(8))))); !strings.Contains(got,
			"3 entries or members refer to") {
			t.Errorf("after the reconciliation: %s", got)
		}
		if err := d.setPipeline(push(p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
			config(t))); err != nil { // without annotations
			t.Fatal(err)
		}
		d.mustWrite(entries[3])
		if err := d.setPipeline(again); err == nil || !strings.Contains(err.Error(), "@refers_to") {
			t.Errorf("an entry without its referent was taken over: %v", err)
		}
	})
}

// TestReferenceCounts writes at random, with rollbacks, and counts what is there and wanted anew after each batch.
func TestReferenceCounts(t *testing.T) {
	d := newDevice(t, nil)
	restricted(d)
	rng := rand.New(rand.NewPCG(7, 9))
	value := func() byte { return byte(rng.IntN(4)) }
	done := 0
	for range 3000 {
		req := batch()
		if rng.IntN(2) == 0 {
			req.Atomicity = p4.WriteRequest_ROLLBACK_ON_ERROR
		}
		for range 1 + rng.IntN(4) {
			text := []string{
				smacEntry(value()), macTo(value(), value()), hopEntry(value(), value(), 1+value()),
				hopMember(1+value(), value()),
				extraDefault("remember", value(), value()), extraDefault("replicate", 1+value()),
				multicastTo(1+int(value()), value()),
			}[rng.IntN(7)]
			u := []func(testing.TB, string) *p4.Update{insert, modify, remove}[rng.IntN(3)](t, text)
			if u.GetEntity().GetTableEntry().GetIsDefaultAction() {
				u.Type = p4.Update_MODIFY
			}
			req.Updates = append(req.Updates, u)
		}
		if d.write(req) == nil {
			done++
		}
		p := d.core.activePipeline()
		for i, r := range p.referentStates {
			there, wanted := map[string]int{}, map[string]int{}
			wish := func(ws []entryReference) {
				for _, w := range ws {
					if w.to == r {
						wanted[w.key()]++
					}
				}
			}
			for _, ts := range p.tableStates {
				for _, e := range ts.list {
					if !e.isConst {
						wish(p.referencesOfEntry(ts, e))
					}
					if ts.tableSchema == r.table {
						if w, ok := r.referenceTo(ts.matchOf(e)); ok {
							there[w.key()]++
						}
					}
				}
				wish(p.referencesOf(ts, nil, ts.dflt.action))
			}
			for _, ps := range p.profileStates {
				for _, m := range ps.members {
					wish(p.referencesOfAction(m.action))
				}
			}
			for id, g := range p.pre.groups {
				wish(p.referencesOfGroup(g))
				for _, w := range p.groupReferents(id) {
					if w.to == r {
						there[w.key()]++
					}
				}
			}
			if diff := cmp.Diff([]map[string]int{there, wanted}, []map[string]int{r.present, r.wanted}); diff != "" {
				t.Fatalf("referent %d, %v (-counted +kept):\n%s", i, r, diff)
			}
			for key := range wanted {
				if implicit := r.table != nil && r.table.name == "In.smac" &&
					key == "\x00\x00\x00\x01\x00"; there[key] == 0 && !implicit {
					t.Fatalf("%v: %q is wanted and not there", r, key)
				}
			}
		}
	}
	if done < 300 {
		t.Errorf("only %d batches were done", done)
	}
}
