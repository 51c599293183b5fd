package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
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

// Read answers the Read RPC. It calls send with one or more responses; if send returns an error, Read ends and returns
// it. The messages share memory with the core and must not be changed. send may let other calls into the core before it
// returns; an entity that exists all the time is then read once, with one of its values.
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
	p := c.activePipeline()
	if p == nil {
		return rpc.Status(errNoPipeline())
	}
	if n, most := len(req.GetEntities()), c.budget.EntitiesPerRead; n > most {
		return rpc.Status(rpc.LimitError("entities", n, most, "split the request"))
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
		e = p.numbersToNames(e)
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
		e, err := p.namesToNumbers(e)
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

// readParts calls f with members or groups of one profile or, for 0, of all: the one with an id or, for 0, all. A
// part can be named only with its profile.
func readParts[V any](
	p *pipeline, r *role, profile, part uint32, what string, parts func(*profileState) map[uint32]*V, f func(*profileState, uint32, *V) error,
) error {
	if profile == 0 && part != 0 {
		return rpc.Invalidf("%s_id is set and action_profile_id is not", what)
	}
	list, err := p.profiles.named(p.schema, r, profile)
	if err != nil {
		return err
	}
	for _, s := range list {
		ps := p.profileStates[s.index]
		all := func() map[uint32]*V { return parts(ps) }
		if err := eachObject(all, part, what, func(id uint32, v *V) error { return f(ps, id, v) }); err != nil {
			return rpc.PrefixError("action profile "+ps.name, err)
		}
	}
	return nil
}

func (p *pipeline) readMember(r *role, q *p4.ActionProfileMember, emit func(*p4.ActionProfileMember) error) error {
	members := func(ps *profileState) map[uint32]*member { return ps.members }
	return readParts(p, r, q.GetActionProfileId(), q.GetMemberId(), "member", members, func(ps *profileState, id uint32, m *member) error {
		return emit(&p4.ActionProfileMember{ActionProfileId: ps.id, MemberId: id, Action: m.action})
	})
}

func (p *pipeline) readGroup(r *role, q *p4.ActionProfileGroup, emit func(*p4.ActionProfileGroup) error) error {
	groups := func(ps *profileState) map[uint32]*group { return ps.groups }
	return readParts(p, r, q.GetActionProfileId(), q.GetGroupId(), "group", groups, func(_ *profileState, _ uint32, g *group) error {
		return emit(g.msg)
	})
}
