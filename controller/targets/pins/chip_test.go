package pins

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fieldTypes are how sai_p4's key fields match, where not exactly.
var fieldTypes = map[string]p4config.MatchField_MatchType{
	"dst_mac": p4config.MatchField_TERNARY, "ipv4_dst": p4config.MatchField_LPM, "ipv6_dst": p4config.MatchField_LPM,
	"is_ip": p4config.MatchField_OPTIONAL, "is_ipv4": p4config.MatchField_OPTIONAL, "is_ipv6": p4config.MatchField_OPTIONAL,
	"dst_ip": p4config.MatchField_TERNARY, "dst_ipv6": p4config.MatchField_TERNARY, "ip_protocol": p4config.MatchField_TERNARY,
	"l4_src_port": p4config.MatchField_TERNARY, "l4_dst_port": p4config.MatchField_TERNARY,
}

// likeSAI makes a P4Info that has what sai_p4 has of the tables that matter: names, kinds of match and references.
func likeSAI() *p4config.P4Info {
	info := &p4config.P4Info{}
	actions := map[string]uint32{}
	for i, n := range requiredTables {
		t := &p4config.Table{Preamble: &p4config.Preamble{
			Id: uint32(100 + i), Name: "ingress." + n.table, Alias: n.table, Annotations: []string{`@p4runtime_role("sdn_controller")`},
		}, Size: 1000}
		for j, name := range n.fields {
			f := &p4config.MatchField{Id: uint32(1 + j), Name: name, Match: &p4config.MatchField_MatchType_{MatchType: p4config.MatchField_EXACT}}
			if m, ok := fieldTypes[name]; ok {
				f.Match = &p4config.MatchField_MatchType_{MatchType: m}
			}
			if strings.HasSuffix(name, "_id") && name != "neighbor_id" {
				f.TypeName = &p4config.P4NamedType{Name: name + "_t"}
			}
			t.MatchFields = append(t.MatchFields, f)
		}
		for _, words := range n.actions {
			w := strings.Fields(words)
			name, _, _ := strings.Cut(w[0], "|")
			id, ok := actions[name]
			if !ok {
				id = uint32(200 + len(actions))
				actions[name] = id
				a := &p4config.Action{Preamble: &p4config.Preamble{Id: id, Name: "ingress." + name, Alias: name}}
				for j, p := range w[1:] {
					a.Params = append(a.Params, &p4config.Action_Param{Id: uint32(1 + j), Name: p})
				}
				info.Actions = append(info.Actions, a)
			}
			t.ActionRefs = append(t.ActionRefs, &p4config.ActionRef{Id: id})
		}
		if n.table == groupTable {
			t.ImplementationId = 300
			info.ActionProfiles = append(info.ActionProfiles, &p4config.ActionProfile{
				Preamble: &p4config.Preamble{Id: 300}, WithSelector: true, Size: 4096, MaxGroupSize: 256,
			})
		}
		info.Tables = append(info.Tables, t)
	}
	return info
}

// chip is a switch that holds to the rules of PINS: what an entry refers to is there before it, and as long as it;
// updates of one request are carried out in no order that one could count on. Here it is the reverse.
type chip struct {
	p4.P4RuntimeClient // nil: what is not below is not called
	t                  testing.TB
	program            *Program
	rows               map[string]row
	said               []string // each request
}

func (c *chip) Write(_ context.Context, req *p4.WriteRequest, _ ...grpc.CallOption) (*p4.WriteResponse, error) {
	if req.GetRole() != "sdn_controller" {
		return nil, status.Error(codes.PermissionDenied, "role")
	}
	var said []string
	for _, u := range slices.Backward(req.GetUpdates()) {
		r, ok := c.program.decode(u.GetEntity().GetTableEntry())
		if !ok {
			return nil, status.Errorf(codes.InvalidArgument, "%v", u)
		}
		said = append(said, fmt.Sprintf("%v %v", u.GetType(), text(&r)))
		_, there := c.rows[r.key()]
		switch u.GetType() {
		case p4.Update_DELETE:
			if !there {
				return nil, status.Errorf(codes.NotFound, "%v", text(&r))
			}
			for _, other := range c.rows {
				if slices.Contains(refersTo(&other), name(&r)) {
					return nil, status.Errorf(codes.FailedPrecondition, "%v is used by %v", text(&r), text(&other))
				}
			}
			delete(c.rows, r.key())
			continue
		case p4.Update_INSERT:
			if there {
				return nil, status.Errorf(codes.AlreadyExists, "%v", text(&r))
			}
		default:
			if !there {
				return nil, status.Errorf(codes.NotFound, "%v", text(&r))
			}
		}
		for _, to := range refersTo(&r) {
			if !slices.ContainsFunc(slices.Collect(maps.Values(c.rows)), func(x row) bool { return name(&x) == to }) {
				return nil, status.Errorf(codes.InvalidArgument, "%v refers to %s, which is not there", text(&r), to)
			}
		}
		c.rows[r.key()] = r
	}
	slices.Reverse(said)
	c.said = append(c.said, strings.Join(said, "\n")+"\n")
	return &p4.WriteResponse{}, nil
}

func (c *chip) Read(ctx context.Context, req *p4.ReadRequest, _ ...grpc.CallOption) (p4.P4Runtime_ReadClient, error) {
	a := &readyStream{ctx: ctx}
	for _, e := range req.GetEntities() {
		for _, key := range slices.Sorted(maps.Keys(c.rows)) {
			if r := c.rows[key]; c.program.tables[r.table].id == e.GetTableEntry().GetTableId() {
				a.resp.Entities = append(a.resp.Entities, c.program.encode(&r, false))
			}
		}
	}
	return a, nil
}

// name is what others call a row, if they do.
func name(r *row) string {
	switch r.table {
	case interfaceTable, nexthopTable, groupTable:
		return r.table + " " + r.match[0].value
	case neighborTable:
		return r.table + " " + r.match[0].value + fmt.Sprintf(" %x", r.match[1].value)
	}
	return ""
}

func refersTo(r *row) (to []string) {
	for _, s := range r.shares {
		to = append(to, nexthopTable+" "+s.nexthop)
	}
	switch r.action {
	case "set_ip_nexthop":
		to = append(to, interfaceTable+" "+r.args[0], neighborTable+" "+r.args[0]+fmt.Sprintf(" %x", r.args[1]))
	case "set_nexthop_id", "redirect_to_nexthop":
		to = append(to, nexthopTable+" "+r.args[0])
	case "set_wcmp_group_id":
		to = append(to, groupTable+" "+r.args[0])
	}
	if r.table == neighborTable {
		to = append(to, interfaceTable+" "+r.match[0].value)
	}
	return to
}

// text is a row for people. Names stay; of numbers the bytes are shown.
func text(r *row) string {
	value := func(s string) string {
		if strings.HasPrefix(s, prefix) {
			return s
		}
		return fmt.Sprintf("%x", s)
	}
	var b strings.Builder
	b.WriteString(r.table)
	if r.priority != 0 {
		fmt.Fprintf(&b, " at %d", r.priority)
	}
	for _, m := range r.match {
		fmt.Fprintf(&b, " %s=%s", m.field, value(m.value))
		switch {
		case m.mask != "":
			fmt.Fprintf(&b, "&%x", m.mask)
		case m.prefix != 0:
			fmt.Fprintf(&b, "/%d", m.prefix)
		}
	}
	if r.action != "" {
		b.WriteString(": " + r.action)
	}
	for _, a := range r.args {
		b.WriteString(" " + value(a))
	}
	for _, s := range r.shares {
		fmt.Fprintf(&b, " %s*%d watches %s", s.nexthop, s.weight, s.watch)
	}
	return b.String()
}
