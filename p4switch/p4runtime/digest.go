package p4runtime

import (
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// maxDigestList is the limit of a digest list whose configuration has none.
const maxDigestList = 4096

// maxDigestCache bounds the memory of unacknowledged lists.
const maxDigestCache = 1 << 16

// digestState is the state of one enabled digest.
type digestState struct {
	*digestSchema
	config *p4.DigestEntry_Config

	buffer   []*p4.P4Data
	buffered []string            // keys of buffer
	known    map[string]struct{} // in the buffer, or sent and not acknowledged
	first    int64               // when the buffer got its first message; Unix ns
	lists    []sentList          // by time
	nextList uint64
}

// sentList is an unacknowledged digest list.
type sentList struct {
	id   uint64
	at   int64 // Unix ns
	keys []string
}

func (p *pipeline) writeDigest(r *role, typ p4.Update_Type, de *p4.DigestEntry) error {
	ds, err := p.digests.find(p.schema, r, de.GetDigestId())
	if err != nil {
		return err
	}
	old := p.learning[ds.id]
	if err := checkExistence(typ, old != nil, ds.id); err != nil {
		return rpc.PrefixError("digest", err)
	}
	if typ == p4.Update_DELETE {
		p.onUndo(func() { p.setDigest(ds, old) })
		p.setDigest(ds, nil)
		return nil
	}
	c := de.GetConfig()
	if c.GetMaxTimeoutNs() < 0 || c.GetAckTimeoutNs() < 0 || c.GetMaxListSize() < 0 {
		return rpc.Invalidf("digest %s: timeouts and list size must not be negative", ds.name)
	}
	if old != nil {
		before := old.config
		p.onUndo(func() { old.config = before })
		old.config = c
		return nil
	}
	if ds.err != nil {
		return rpc.PrefixError("digest "+ds.name, ds.err)
	}
	p.onUndo(func() { p.setDigest(ds, nil) })
	p.setDigest(ds, &digestState{digestSchema: ds, config: c, known: map[string]struct{}{}, nextList: 1})
	return nil
}

// setDigest enables a digest; nil disables it.
func (p *pipeline) setDigest(ds *digestSchema, st *digestState) {
	p.learning[ds.id] = st
	if st == nil {
		delete(p.learning, ds.id)
	}
	for _, id := range ds.dids {
		p.byDigest[id] = st
	}
}

func (p *pipeline) readDigest(r *role, q *p4.DigestEntry, emit func(*p4.DigestEntry) error) error {
	list, err := p.digests.named(p.schema, r, q.GetDigestId())
	if err != nil {
		return err
	}
	for _, ds := range list {
		if st := p.learning[ds.id]; st != nil {
			if err := emit(&p4.DigestEntry{DigestId: ds.id, Config: st.config}); err != nil {
				return err
			}
		}
	}
	return nil
}

// digestReceiver returns the function that receives a pipeline's digest messages.
func (c *Core) digestReceiver(p *pipeline) func(interp.DigestRecord) {
	if c.cfg.Later == nil {
		return p.receiveDigest
	}
	return func(rec interp.DigestRecord) {
		fields := make([][]byte, len(rec.Fields))
		for i, f := range rec.Fields {
			fields[i] = slices.Clone(f)
		}
		rec.Fields = fields
		if !c.cfg.Later(func() { p.receiveDigest(rec) }) {
			c.digestsLost.Add(1)
		}
	}
}

// receiveDigest processes a digest message from the data plane.
func (p *pipeline) receiveDigest(rec interp.DigestRecord) {
	st := p.byDigest[rec.Digest]
	if st == nil || len(rec.Fields) != len(st.leaves) {
		return
	}
	now := p.core.cfg.Epoch + rec.Now
	st.expireLists(now)
	var key []byte
	for i, f := range rec.Fields {
		valid := byte(0)
		if f != nil {
			valid = 1
		}
		key = appendPadded(append(key, valid), f, st.leaves[i].width)
	}
	if _, dup := st.known[string(key)]; dup {
		return
	}
	i := 0
	data, err := p.composeData(st.spec, func() []byte {
		i++
		if t := st.leaves[i-1].named; t != nil {
			return []byte(p.nameOfNumber(t, toNumber(rec.Fields[i-1])))
		}
		return rec.Fields[i-1]
	}, 0)
	if err != nil {
		return // checked when the digest was enabled
	}
	if len(st.buffer) == 0 {
		st.first = now
		p.core.reportDeadline()
	}
	st.known[string(key)] = struct{}{}
	st.buffer = append(st.buffer, data)
	st.buffered = append(st.buffered, string(key))
	limit := int(st.config.GetMaxListSize())
	if limit == 0 {
		limit = maxDigestList
	}
	if st.config.GetMaxTimeoutNs() == 0 || len(st.buffer) >= limit {
		p.flushDigest(st, now)
	}
}

// flushDigest sends the buffer to the primaries.
func (p *pipeline) flushDigest(st *digestState, now int64) {
	list := &p4.DigestList{DigestId: st.id, ListId: st.nextList, Data: st.buffer, Timestamp: now}
	sent, _ := p.core.toPrimaries(st.base(),
		&p4.StreamMessageResponse{Update: &p4.StreamMessageResponse_Digest{Digest: list}})
	keys := st.buffered
	st.buffer, st.buffered = nil, nil
	st.nextList++
	if sent == 0 {
		p.core.stats.DigestLost += uint64(len(keys))
	}
	if sent == 0 || st.config.GetAckTimeoutNs() == 0 {
		st.removeKeys(keys)
		return
	}
	st.lists = append(st.lists, sentList{id: list.GetListId(), at: now, keys: keys})
	for len(st.known) > maxDigestCache && len(st.lists) > 1 {
		st.removeKeys(st.lists[0].keys)
		st.lists = st.lists[1:]
	}
}

func (st *digestState) removeKeys(keys []string) {
	for _, k := range keys {
		delete(st.known, k)
	}
}

// expireLists forgets lists that were not acknowledged in time.
func (st *digestState) expireLists(now int64) {
	for len(st.lists) > 0 && now-st.lists[0].at >= st.config.GetAckTimeoutNs() {
		st.removeKeys(st.lists[0].keys)
		st.lists = st.lists[1:]
	}
}

// digestAck handles an acknowledgement from a controller.
func (c *Core) digestAck(s *Stream, ack *p4.DigestListAck) error {
	if c.live == nil {
		return errNoPipeline()
	}
	if c.live.digests.byID[ack.GetDigestId()] == nil {
		return c.live.unknownID("digest", ack.GetDigestId())
	}
	if !s.Primary() {
		return nil // only the primary's acknowledgement counts
	}
	st := c.live.learning[ack.GetDigestId()]
	if st == nil {
		return nil
	}
	if i := slices.IndexFunc(st.lists, func(l sentList) bool { return l.id == ack.GetListId() }); i >= 0 {
		st.removeKeys(st.lists[i].keys)
		st.lists = slices.Delete(st.lists, i, i+1)
	}
	return nil
}

// toPrimaries sends m to the primary of every role that may access the object. It returns how many took it, of how
// many.
func (c *Core) toPrimaries(o *object, m *p4.StreamMessageResponse) (sent, primaries int) {
	for _, r := range c.roleList {
		if r.primary == nil || !r.mayAccess(o) {
			continue
		}
		if primaries++; r.primary.send(m) == nil {
			sent++
		}
	}
	return sent, primaries
}
