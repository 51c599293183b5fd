package p4runtime

import (
	"fmt"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// roleKey identifies a role. The deprecated numeric id distinguishes old controllers.
type roleKey struct {
	name string
	id   uint64
}

// electionID is a 128-bit election id, or unset, which is below all others.
type electionID struct {
	set       bool
	high, low uint64
}

func electionOf(u *p4.Uint128) electionID {
	if u == nil {
		return electionID{}
	}
	return electionID{set: true, high: u.GetHigh(), low: u.GetLow()}
}

func (e electionID) less(o electionID) bool {
	switch {
	case e.set != o.set:
		return !e.set
	case e.high != o.high:
		return e.high < o.high
	default:
		return e.low < o.low
	}
}

func (e electionID) proto() *p4.Uint128 {
	if !e.set {
		return nil
	}
	return &p4.Uint128{High: e.high, Low: e.low}
}

// role is one partition of the control plane: its open streams, one of which may be primary.
type role struct {
	key       roleKey
	msg       *p4.Role   // in the controllers' form; nil: the default role
	streams   []*Stream  // in order of arrival
	primary   *Stream    // nil: none
	highestID electionID // of any primary so far
	emptied   uint64     // number of the closing that left it without streams
}

// mayAccess reports whether the role's controllers may access a P4Info object.
func (r *role) mayAccess(o *object) bool {
	return r == nil || r.key == (roleKey{}) || o.role == "" || o.role == r.key.name
}

// writerRole returns the role whose primary sent a request.
func (c *Core) writerRole(device uint64, key roleKey, id *p4.Uint128) (*role, error) {
	if err := c.checkDevice(device); err != nil {
		return nil, err
	}
	r := c.roles[key]
	if r == nil {
		if key != (roleKey{}) {
			return nil, rpc.NotFoundf("no controller has the role %q", rpc.Shorten(key.name))
		}
		return nil, rpc.Errorf(codes.PermissionDenied, "there is no primary controller; open a stream and send an arbitration update first")
	}
	if r.primary == nil {
		return nil, rpc.Errorf(codes.PermissionDenied, "the role %q has no primary controller", key.name)
	}
	if e := electionOf(id); !e.set || e != r.primary.election {
		return nil, rpc.Errorf(codes.PermissionDenied, "election id %d:%d is not the primary's (%d:%d)", e.high, e.low, r.primary.election.high, r.primary.election.low)
	}
	return r, nil
}

// arbitrate handles an arbitration update. An error ends the stream.
func (c *Core) arbitrate(s *Stream, m *p4.MasterArbitrationUpdate) error {
	if c.deviceID == 0 && !c.cfg.AllowDeviceZero {
		return rpc.Errorf(codes.FailedPrecondition, "the switch has no device id yet")
	}
	key := roleKey{name: m.GetRole().GetName(), id: m.GetRole().GetId()}
	if n, most := len(key.name), c.budget.RoleNameBytes; n > most {
		return rpc.PrefixError("role name", rpc.LimitError("role-name", n, most, "choose a shorter one"))
	}
	if s.role == nil {
		if err := c.checkDevice(m.GetDeviceId()); err != nil {
			return err
		}
	} else {
		if m.GetDeviceId() != c.deviceID {
			return rpc.Errorf(codes.FailedPrecondition, "the stream is for device %d; open another one for device %d", c.deviceID, m.GetDeviceId())
		}
		if key != s.role.key {
			return rpc.Errorf(codes.FailedPrecondition, "the stream is for role %q; open another one for role %q", s.role.key.name, key.name)
		}
	}
	id := electionOf(m.GetElectionId())
	r := c.roles[key]
	if r != nil && id.set {
		for _, other := range r.streams {
			if other != s && other.election == id {
				return rpc.Invalidf("election id %d:%d belongs to another live controller", id.high, id.low)
			}
		}
	}
	if m.GetRole().GetConfig() != nil {
		return rpc.Invalidf("role %q: this switch knows no role configurations; leave role.config unset", key.name)
	}
	if s.role == nil {
		if r != nil && len(r.streams) >= c.budget.StreamsPerRole {
			return rpc.PrefixError(fmt.Sprintf("streams of role %q", key.name), rpc.LimitError("role-streams", len(r.streams)+1, c.budget.StreamsPerRole, "close one first"))
		}
		if r == nil {
			if err := c.roomForRole(); err != nil {
				return err
			}
			r = &role{key: key}
			if m.GetRole() != nil {
				r.msg = &p4.Role{Name: key.name, Id: key.id} //nolint:staticcheck // old controllers use the id
			}
			c.roles[key] = r
			c.roleList = append(c.roleList, r)
		}
		r.streams = append(r.streams, s)
		s.role = r
	}
	r.setElectionID(c, s, id)
	return nil
}

// roomForRole forgets the role whose last stream closed first, if the budget requires it. Until then a role's
// highest election id is remembered, as specified; the default role's always is.
func (c *Core) roomForRole() error {
	if len(c.roleList) < c.budget.Roles {
		return nil
	}
	oldest := -1
	for i, r := range c.roleList {
		if len(r.streams) == 0 && r.key != (roleKey{}) && (oldest < 0 || r.emptied < c.roleList[oldest].emptied) {
			oldest = i
		}
	}
	if oldest < 0 {
		return rpc.LimitError("roles", len(c.roleList)+1, c.budget.Roles, "close the streams of one")
	}
	delete(c.roles, c.roleList[oldest].key)
	c.roleList = slices.Delete(c.roleList, oldest, oldest+1)
	return nil
}

// setElectionID sets s's election id and notifies the sessions concerned.
func (r *role) setElectionID(c *Core, s *Stream, id electionID) {
	was := r.primary
	unchanged := was == s && s.election == id
	s.election = id
	switch {
	case id.set && !id.less(r.highestID):
		r.highestID = id
		r.setPrimary(s)
		if unchanged {
			r.notifyStream(c, s)
			return
		}
		// The new primary is notified last.
		for _, other := range r.streams {
			if other != s {
				r.notifyStream(c, other)
			}
		}
		r.notifyStream(c, s)
	case was == s:
		r.setPrimary(nil)
		r.notifyAll(c)
	default:
		r.notifyStream(c, s)
	}
}

// setPrimary makes a stream the primary; nil: none.
func (r *role) setPrimary(s *Stream) {
	was := r.primary
	r.primary = s
	if was == s {
		return
	}
	for _, x := range []*Stream{was, s} {
		if x != nil && x.OnRank != nil {
			x.OnRank(r.key == roleKey{}, x == s)
		}
	}
}

// removeStream removes a closed stream.
func (r *role) removeStream(c *Core, s *Stream) {
	if i := slices.Index(r.streams, s); i >= 0 {
		r.streams = slices.Delete(r.streams, i, i+1)
	}
	if r.primary == s {
		r.setPrimary(nil)
		r.notifyAll(c)
	}
	if len(r.streams) == 0 {
		c.closings++
		r.emptied = c.closings
	}
}

func (r *role) notifyAll(c *Core) {
	for _, s := range r.streams {
		r.notifyStream(c, s)
	}
}

func (r *role) notifyStream(c *Core, s *Stream) {
	m := &p4.MasterArbitrationUpdate{DeviceId: c.deviceID, ElectionId: r.highestID.proto()}
	m.Role = r.msg
	switch {
	case s == r.primary:
		m.Status = &spb.Status{Code: int32(codes.OK), Message: "you are primary"}
	case r.primary != nil:
		m.Status = &spb.Status{Code: int32(codes.AlreadyExists), Message: "another controller is primary"}
	default:
		m.Status = &spb.Status{Code: int32(codes.NotFound), Message: "there is no primary"}
	}
	s.send(&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Arbitration{Arbitration: m}}) //nolint:errcheck // a stream that cannot be written to is about to be closed
}
