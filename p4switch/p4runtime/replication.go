package p4runtime

import (
	"maps"
	"math"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// sdnCPUPort is PSA's P4Runtime port number of the controller.
const sdnCPUPort = 0xfffffffd

// replication is the packet replication engine: the controllers' multicast groups and clone sessions.
type replication struct {
	groups   map[uint32]*multicast
	sessions map[uint32]*p4.CloneSessionEntry
}

type multicast struct {
	msg      *p4.MulticastGroupEntry
	replicas [][]interp.Replica // each with its backups, by preference
	backups  bool
}

func newReplication() replication {
	return replication{groups: map[uint32]*multicast{}, sessions: map[uint32]*p4.CloneSessionEntry{}}
}

// checkRoom checks a new group or session, the n-th, against the budget.
func (p *pipeline) checkRoom(n int, there bool, replicas []*p4.Replica) error {
	if b := &p.core.budget; !there && n >= b.ReplicationGroups {
		return rpc.LimitError("groups", n+1, b.ReplicationGroups, "delete one first")
	}
	size := len(replicas)
	for _, r := range replicas {
		size += len(r.GetBackupReplicas())
	}
	if most := p.core.budget.ReplicasPerGroup; size > most {
		return rpc.LimitError("replicas", size, most, "use more groups")
	}
	return nil
}

func (p *pipeline) writeMulticast(_ *role, typ p4.Update_Type, e *p4.MulticastGroupEntry) error {
	return rpc.PrefixError("multicast group", p.updateMulticast(typ, e))
}

func (p *pipeline) updateMulticast(typ p4.Update_Type, e *p4.MulticastGroupEntry) error {
	id := e.GetMulticastGroupId()
	if id == 0 {
		return rpc.Invalidf("multicast_group_id is 0; it must be above")
	}
	if id > math.MaxUint16 {
		return rpc.Invalidf("multicast_group_id is %d; a packet's mcast_grp has 16 bits, so the most is %d", id, math.MaxUint16)
	}
	old, there := p.pre.groups[id]
	if err := checkExistence(typ, there, id); err != nil {
		return err
	}
	if typ == p4.Update_DELETE {
		if err := p.refuseIfGroupReferenced(id); err != nil {
			return err
		}
		if err := p.sw.DeleteMulticastGroup(id); err != nil {
			return fromSwitch(err)
		}
		setUndoable(p, p.pre.groups, id, nil)
		p.indexGroup(id, -1)
		p.countReferences(p.referencesOfGroup(old), -1)
		return nil
	}
	if err := p.checkRoom(len(p.pre.groups), there, e.GetReplicas()); err != nil {
		return err
	}
	if err := p.checkMetadata(e.GetMetadata()); err != nil {
		return err
	}
	m := &multicast{msg: &p4.MulticastGroupEntry{MulticastGroupId: id, Metadata: e.GetMetadata()}}
	seen := map[interp.Replica]bool{}
	for _, r := range e.GetReplicas() {
		canon, chain, err := p.parseReplica(r, seen)
		if err != nil {
			return err
		}
		m.msg.Replicas = append(m.msg.Replicas, canon)
		m.replicas = append(m.replicas, chain)
		m.backups = m.backups || len(chain) > 1
	}
	refs := p.referencesOfGroup(m)
	if err := p.checkReferences(refs); err != nil {
		return err
	}
	if err := p.sw.SetMulticastGroup(id, m.liveReplicas(p)); err != nil {
		return fromSwitch(err)
	}
	setUndoable(p, p.pre.groups, id, m)
	p.countReferences(refs, 1)
	if there {
		p.countReferences(p.referencesOfGroup(old), -1)
	} else {
		p.indexGroup(id, 1)
	}
	return nil
}

// parseReplica checks a replica and its backups.
func (p *pipeline) parseReplica(r *p4.Replica, seen map[interp.Replica]bool) (*p4.Replica, []interp.Replica, error) {
	canon := &p4.Replica{Instance: r.GetInstance()}
	first, err := p.replicaPort(r.GetPortKind())
	if err != nil {
		return nil, nil, err
	}
	canon.PortKind = r.GetPortKind()
	if b := r.GetPort(); len(b) > 0 {
		canon.PortKind = &p4.Replica_Port{Port: canonicalBytes(b)}
	}
	chain := []interp.Replica{{Port: first}}
	instances := []uint32{r.GetInstance()}
	for _, b := range r.GetBackupReplicas() {
		port, err := p.sdnPort(b.GetPort())
		if err != nil {
			return nil, nil, err
		}
		if slices.ContainsFunc(chain, func(c interp.Replica) bool { return c.Port == port }) {
			return nil, nil, rpc.Invalidf("port %d is a replica's and its backup's", port)
		}
		chain = append(chain, interp.Replica{Port: port})
		instances = append(instances, b.GetInstance())
		canon.BackupReplicas = append(canon.BackupReplicas, &p4.BackupReplica{Port: canonicalBytes(b.GetPort()), Instance: b.GetInstance()})
	}
	for i, inst := range instances {
		if inst > math.MaxUint16 {
			return nil, nil, rpc.Invalidf("instance %d; the most is %d", inst, math.MaxUint16)
		}
		chain[i].Instance = uint16(inst)
		if seen[chain[i]] {
			return nil, nil, rpc.Invalidf("port %d with instance %d is there twice", chain[i].Port, inst)
		}
		seen[chain[i]] = true
	}
	return canon, chain, nil
}

// replicaPort reads a replica's port in either form.
func (p *pipeline) replicaPort(kind any) (uint32, error) {
	switch k := kind.(type) {
	case *p4.Replica_Port:
		return p.sdnPort(k.Port)
	case *p4.Replica_EgressPort:
		return p.translatePort(k.EgressPort), nil
	}
	return 0, rpc.Invalidf("a replica has no port")
}

func (p *pipeline) sdnPort(b []byte) (uint32, error) {
	port, err := bytesUint32(b, "port")
	return p.translatePort(port), err
}

// translatePort converts PSA's number of the CPU port to this switch's.
func (p *pipeline) translatePort(port uint32) uint32 {
	if port == sdnCPUPort && p.core.cfg.CPUPort != 0 {
		return p.core.cfg.CPUPort
	}
	return port
}

// liveReplicas lists the replicas to make now: the first live one of each chain. A replica without backups is always
// made; a chain that is all down makes none.
func (m *multicast) liveReplicas(p *pipeline) []interp.Replica {
	out := make([]interp.Replica, 0, len(m.replicas))
	for _, chain := range m.replicas {
		if len(chain) == 1 {
			out = append(out, chain[0])
			continue
		}
		for _, r := range chain {
			if p.core.cfg.Ports.Usable(r.Port) {
				out = append(out, r)
				break
			}
		}
	}
	return out
}

// portChanged selects the replicas of groups with backups again.
func (x *replication) portChanged(p *pipeline, _ uint32) {
	for _, id := range slices.Sorted(maps.Keys(x.groups)) {
		if m := x.groups[id]; m.backups {
			p.sw.SetMulticastGroup(id, m.liveReplicas(p)) //nolint:errcheck // it was accepted with these replicas before
		}
	}
}

func (p *pipeline) writeClone(_ *role, typ p4.Update_Type, e *p4.CloneSessionEntry) error {
	return rpc.PrefixError("clone session", p.updateClone(typ, e))
}

func (p *pipeline) updateClone(typ p4.Update_Type, e *p4.CloneSessionEntry) error {
	id := e.GetSessionId()
	if id == 0 {
		return rpc.Invalidf("session_id is 0; it must be above")
	}
	_, there := p.pre.sessions[id]
	if err := checkExistence(typ, there, id); err != nil {
		return err
	}
	if typ == p4.Update_DELETE {
		if err := p.sw.DeleteCloneSession(id); err != nil {
			return fromSwitch(err)
		}
		setUndoable(p, p.pre.sessions, id, nil)
		return nil
	}
	switch {
	case e.GetPacketLengthBytes() < 0:
		return rpc.Invalidf("packet_length_bytes is %d; it must not be negative", e.GetPacketLengthBytes())
	case e.GetClassOfService() > math.MaxUint8:
		return rpc.Invalidf("class_of_service is %d; the most is %d", e.GetClassOfService(), math.MaxUint8)
	}
	if err := p.checkRoom(len(p.pre.sessions), there, e.GetReplicas()); err != nil {
		return err
	}
	cs := interp.CloneSession{Truncate: int(e.GetPacketLengthBytes()), Class: uint8(e.GetClassOfService())}
	canon := &p4.CloneSessionEntry{SessionId: id, ClassOfService: e.GetClassOfService(), PacketLengthBytes: e.GetPacketLengthBytes()}
	seen := map[interp.Replica]bool{}
	for _, r := range e.GetReplicas() {
		if len(r.GetBackupReplicas()) > 0 {
			return rpc.Errorf(codes.Unimplemented, "replicas of a clone session have no backups")
		}
		cr, chain, err := p.parseReplica(r, seen)
		if err != nil {
			return err
		}
		canon.Replicas = append(canon.Replicas, cr)
		cs.Replicas = append(cs.Replicas, chain[0])
	}
	if err := p.sw.SetCloneSession(id, cs); err != nil {
		return fromSwitch(err)
	}
	setUndoable(p, p.pre.sessions, id, canon)
	return nil
}

func (p *pipeline) readMulticast(_ *role, q *p4.MulticastGroupEntry, emit func(*p4.MulticastGroupEntry) error) error {
	all := func() map[uint32]*multicast { return p.pre.groups }
	return eachObject(all, q.GetMulticastGroupId(), "multicast group", func(_ uint32, m *multicast) error { return emit(m.msg) })
}

func (p *pipeline) readClone(_ *role, q *p4.CloneSessionEntry, emit func(*p4.CloneSessionEntry) error) error {
	all := func() map[uint32]*p4.CloneSessionEntry { return p.pre.sessions }
	return eachObject(all, q.GetSessionId(), "clone session", func(_ uint32, s *p4.CloneSessionEntry) error { return emit(s) })
}
