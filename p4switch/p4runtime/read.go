package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Limits of one ReadResponse, which stays in memory while a reader does not read. gRPC clients refuse messages
// above 4 MiB.
const (
	maxReadEntities = 512
	maxReadBytes    = 256 << 10
)

// readBlock is the number of entries or cells read from the switch at a time.
const readBlock = 128

// emitter processes one entity of a read's answer.
type emitter func(*p4.Entity) error

// Read answers the Read RPC. It calls send with one or more responses; an error of send ends the read and is
// returned. The messages share parts with the core and must not be changed. send may let other calls into the core
// before it returns: an entity that exists all the time is read once, with a value that it had meanwhile.
func (c *Core) Read(req *p4.ReadRequest, send func(*p4.ReadResponse) error) error {
	if err := c.checkDevice(req.GetDeviceId()); err != nil {
		return rpc.Status(err)
	}
	var r *role
	if name := req.GetRole(); name != "" {
		if r = c.roles[roleKey{name: name}]; r == nil {
			r = &role{key: roleKey{name: name}}
		}
	}
	p := c.current()
	if p == nil {
		return rpc.Status(errNoPipeline())
	}
	if n, most := len(req.GetEntities()), c.budget.Entities; n > most {
		return rpc.Status(rpc.Over("entities", n, most, "split the request"))
	}
	resp := &p4.ReadResponse{}
	size := 0
	var sendErr error
	flush := func() error {
		if len(resp.GetEntities()) == 0 {
			return nil
		}
		sendErr = send(resp)
		resp, size = &p4.ReadResponse{}, 0
		return sendErr
	}
	emit := func(e *p4.Entity) error {
		e = p.named(e)
		n := proto.Size(e)
		if len(resp.GetEntities()) > 0 && size+n > maxReadBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		resp.Entities = append(resp.Entities, e)
		size += n
		if len(resp.GetEntities()) >= maxReadEntities {
			return flush()
		}
		return nil
	}
	var errs []error // made at the first failure
	for i, e := range req.GetEntities() {
		e, err := p.numbered(e)
		if err == nil {
			err = p.read(r, e, emit)
		}
		if err != nil {
			if sendErr != nil {
				return sendErr
			}
			if errs == nil {
				errs = make([]error, len(req.GetEntities()))
			}
			errs[i] = err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return c.batchError("reads", errs)
}

func (p *pipeline) read(r *role, e *p4.Entity, emit emitter) error {
	switch x := e.GetEntity().(type) {
	case *p4.Entity_TableEntry:
		return p.readTable(r, x.TableEntry, emit)
	case *p4.Entity_ActionProfileMember:
		return p.readMember(r, x.ActionProfileMember, emit)
	case *p4.Entity_ActionProfileGroup:
		return p.readGroup(r, x.ActionProfileGroup, emit)
	case *p4.Entity_CounterEntry:
		return p.readCounter(r, x.CounterEntry, emit)
	case *p4.Entity_DirectCounterEntry:
		return p.readDirectCounter(r, x.DirectCounterEntry, emit)
	case *p4.Entity_MeterEntry:
		return p.readMeter(r, x.MeterEntry, emit)
	case *p4.Entity_DirectMeterEntry:
		return p.readDirectMeter(r, x.DirectMeterEntry, emit)
	case *p4.Entity_PacketReplicationEngineEntry:
		return p.readReplication(x.PacketReplicationEngineEntry, emit)
	case *p4.Entity_ValueSetEntry:
		return p.readValueSet(r, x.ValueSetEntry, emit)
	case *p4.Entity_RegisterEntry:
		return p.readRegister(r, x.RegisterEntry, emit)
	case *p4.Entity_DigestEntry:
		return p.readDigest(r, x.DigestEntry, emit)
	case *p4.Entity_ExternEntry:
		if x.ExternEntry.GetExternTypeId() != 0 {
			return rpc.Errorf(codes.Unimplemented, "this architecture has no extern entries")
		}
		return nil // a wildcard read of nothing
	default:
		return rpc.Invalidf("the read has no entity")
	}
}

// profilesOf returns the action profiles that a read concerns: the named one, or all. A part can be named only with
// its profile.
func (p *pipeline) profilesOf(r *role, profile, part uint32, what string) ([]*profileState, error) {
	if profile != 0 {
		ps, err := p.profile(r, profile)
		if err != nil {
			return nil, err
		}
		return []*profileState{ps}, nil
	}
	if part != 0 {
		return nil, rpc.Invalidf("%s_id is set and action_profile_id is not", what)
	}
	return p.profileStates, nil
}

func (p *pipeline) readMember(r *role, q *p4.ActionProfileMember, emit emitter) error {
	list, err := p.profilesOf(r, q.GetActionProfileId(), q.GetMemberId(), "member")
	if err != nil {
		return err
	}
	for _, ps := range list {
		if !r.may(ps.object) {
			continue
		}
		ids, err := selectIDs(ps.members, q.GetMemberId(), "member")
		if err != nil {
			return rpc.Within("action profile "+ps.name, err)
		}
		for _, id := range ids {
			m := ps.members[id]
			if m == nil {
				continue // deleted meanwhile
			}
			out := &p4.ActionProfileMember{ActionProfileId: ps.id, MemberId: id, Action: m.action}
			if err := emit(&p4.Entity{Entity: &p4.Entity_ActionProfileMember{ActionProfileMember: out}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *pipeline) readGroup(r *role, q *p4.ActionProfileGroup, emit emitter) error {
	list, err := p.profilesOf(r, q.GetActionProfileId(), q.GetGroupId(), "group")
	if err != nil {
		return err
	}
	for _, ps := range list {
		if !r.may(ps.object) {
			continue
		}
		ids, err := selectIDs(ps.groups, q.GetGroupId(), "group")
		if err != nil {
			return rpc.Within("action profile "+ps.name, err)
		}
		for _, id := range ids {
			g := ps.groups[id]
			if g == nil {
				continue // deleted meanwhile
			}
			if err := emit(&p4.Entity{Entity: &p4.Entity_ActionProfileGroup{ActionProfileGroup: g.msg}}); err != nil {
				return err
			}
		}
	}
	return nil
}
