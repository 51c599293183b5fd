package p4runtime

import (
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Write answers the Write RPC. The error is a gRPC status; if it concerns updates, its code is UNKNOWN and its
// details hold one p4.Error per update.
//
// Write keeps references to parts of the request: the caller must not change it afterwards. One request may be
// written to many switches.
func (c *Core) Write(req *p4.WriteRequest) error {
	key := roleKey{name: req.GetRole(), id: req.GetRoleId()} //nolint:staticcheck // old controllers use the id
	r, err := c.writerRole(req.GetDeviceId(), key, req.GetElectionId())
	if err != nil {
		return rpc.Status(err)
	}
	p := c.activePipeline()
	if p == nil {
		return rpc.Status(errNoPipeline())
	}
	if err := c.checkUpdates(req); err != nil {
		return rpc.Status(err)
	}
	c.plane.lock()
	p.sw.SetTime(c.dataplaneNow())
	err = p.applyUpdates(r, req)
	c.plane.unlock()
	if p.portTables && p == c.live && c.cfg.OnPortTables != nil {
		p.portTables = false
		c.cfg.OnPortTables()
	}
	return err
}

// checkUpdates checks a request against the budget.
func (c *Core) checkUpdates(req *p4.WriteRequest) error {
	name, most := "updates", c.budget.UpdatesPerWrite
	switch req.GetAtomicity() {
	case p4.WriteRequest_ROLLBACK_ON_ERROR:
		name, most = "rollback-updates", c.budget.RollbackUpdates
	case p4.WriteRequest_DATAPLANE_ATOMIC:
		name, most = "atomic-updates", c.budget.AtomicUpdates
	}
	if n := len(req.GetUpdates()); n > most {
		return rpc.LimitError(name, n, most, "split the request")
	}
	return nil
}

// applyUpdates carries out the updates with the request's atomicity.
func (p *pipeline) applyUpdates(r *role, req *p4.WriteRequest) error {
	switch a := req.GetAtomicity(); a {
	case p4.WriteRequest_CONTINUE_ON_ERROR:
		var errs []error // made at the first failure
		for i, u := range req.GetUpdates() {
			if err := p.applyUpdate(r, u); err != nil {
				if errs == nil {
					errs = make([]error, len(req.GetUpdates()))
				}
				errs[i] = err
			}
			p.core.plane.workDone(updateUnits)
		}
		return p.core.batchError("updates", errs)
	case p4.WriteRequest_ROLLBACK_ON_ERROR, p4.WriteRequest_DATAPLANE_ATOMIC:
		p.core.plane.whole = a == p4.WriteRequest_DATAPLANE_ATOMIC
		return p.applyAll(r, req.GetUpdates())
	default:
		return rpc.Status(rpc.Invalidf("atomicity %v", a))
	}
}

// applyAll carries out all updates or none.
func (p *pipeline) applyAll(r *role, updates []*p4.Update) error {
	p.beginBatch()
	for i, u := range updates {
		err := p.applyUpdate(r, u)
		if err == nil {
			p.core.plane.workDone(updateUnits)
			continue
		}
		p.endBatch(false)
		errs := make([]error, len(updates))
		for j := range errs {
			errs[j] = rpc.Errorf(codes.Aborted, "rolled back, because update %d of the batch failed", i)
		}
		errs[i] = err
		return p.core.batchError("updates", errs)
	}
	p.endBatch(true)
	return nil
}

// applyUpdate carries out one update.
func (p *pipeline) applyUpdate(r *role, u *p4.Update) error {
	typ := u.GetType()
	switch typ {
	case p4.Update_INSERT, p4.Update_MODIFY, p4.Update_DELETE:
	default:
		return rpc.Invalidf("update type %v; it must be INSERT, MODIFY or DELETE", typ)
	}
	entity, err := p.namesToNumbers(u.GetEntity())
	if err != nil {
		return err
	}
	k, err := kindOf(entity, "update")
	if err != nil {
		return err
	}
	return k.write(p, r, typ, entity)
}

// checkOwner refuses a role that may not access the object.
func (r *role) checkOwner(kind string, o *object) error {
	if !r.mayAccess(o) {
		return rpc.Errorf(codes.PermissionDenied, "%s %s does not belong to role %q", kind, o.name, r.key.name)
	}
	return nil
}
