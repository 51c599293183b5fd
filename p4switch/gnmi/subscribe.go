package gnmi

import (
	gnmipb "github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// maxBundle is the largest number of updates in one notification.
const maxBundle = 128

// Subscription is one Subscribe RPC of a client.
type Subscription struct {
	g        *Core
	send     func(*gnmipb.SubscribeResponse) bool
	list     *gnmipb.SubscriptionList
	prefix   *gnmipb.Path
	streams  []*stream
	onChange map[leafRef]bool
	all      []leafRef // every subscribed leaf, once, in order

	// Unsent values: the latest one of each leaf, so there are at most as many as leaves.
	pending      []pendingUpdate
	pendingIndex map[leafRef]int // index into pending
	sendSync     bool            // a sync_response follows what is pending
	synced       bool
	closed       bool
	rate         float64 // sampled leaves per second
}

type pendingUpdate struct {
	ref        leafRef
	value      value
	time       int64 // Unix ns
	duplicates uint32
}

// stream is one of the subscription list's paths, with its timers.
type stream struct {
	sampled   []leafRef // leaves sent at every interval
	beating   []leafRef // leaves sent at every heartbeat
	interval  int64     // ns; 0: no samples
	heartbeat int64     // ns; 0: none
	suppress  bool
	sampleAt  int64 // Unix ns
	beatAt    int64 // Unix ns
	last      map[leafRef]value
}

// Subscribe starts the subscription in req. send takes a response and returns true, or returns false if the
// subscriber is not ready: the subscription then keeps the latest value of each leaf until Drain is called. send
// must not call back into the core. The error is a gRPC status.
func (g *Core) Subscribe(req *gnmipb.SubscribeRequest, send func(*gnmipb.SubscribeResponse) bool) (*Subscription, error) {
	s, err := g.subscribe(req, send)
	return s, rpc.Status(err)
}

func (g *Core) subscribe(req *gnmipb.SubscribeRequest, send func(*gnmipb.SubscribeResponse) bool) (*Subscription, error) {
	list := req.GetSubscribe()
	if err := checkExtensions(req.GetExtension()); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, rpc.Invalidf("the first message must hold a subscription list; there is nothing to poll yet")
	}
	if len(list.GetSubscription()) == 0 {
		return nil, rpc.Invalidf("the subscription list is empty")
	}
	if n, most := len(list.GetSubscription()), g.budget.PathsPerRequest; n > most {
		return nil, rpc.LimitError("paths", n, most, "open more subscriptions")
	}
	if err := checkEncoding(list.GetEncoding()); err != nil {
		return nil, err
	}
	if err := checkModels(list.GetUseModels()); err != nil {
		return nil, err
	}
	switch list.GetMode() {
	case gnmipb.SubscriptionList_STREAM, gnmipb.SubscriptionList_ONCE, gnmipb.SubscriptionList_POLL:
	default:
		return nil, rpc.Invalidf("mode %v", list.GetMode())
	}
	now := g.cfg.Now()
	s := &Subscription{g: g, send: send, list: list, onChange: map[leafRef]bool{}, pendingIndex: map[leafRef]int{}}
	s.prefix = answerPrefix(list.GetPrefix(), list.GetSubscription()[0].GetPath())
	seen := map[leafRef]bool{}
	for _, sub := range list.GetSubscription() {
		pat, err := g.compilePath(list.GetPrefix(), sub.GetPath())
		if err != nil {
			return nil, err
		}
		refs, err := g.leavesOf(pat)
		if err != nil {
			return nil, err
		}
		for _, r := range refs {
			if !seen[r] {
				seen[r] = true
				s.all = append(s.all, r)
			}
		}
		if list.GetMode() != gnmipb.SubscriptionList_STREAM {
			continue
		}
		if err := s.addStream(sub, pat, refs, now); err != nil {
			return nil, err
		}
	}
	rate := s.rate
	for _, other := range g.subs {
		rate += other.rate
	}
	if most := g.budget.SampledLeavesPerSecond; rate > float64(most) {
		return nil, rpc.LimitError("sample-rate", int(rate), most, "sample fewer leaves, or less often")
	}
	g.subs = append(g.subs, s)
	s.sendSnapshot(now)
	return s, nil
}

// addStream sets up one path of a STREAM subscription.
func (s *Subscription) addStream(sub *gnmipb.Subscription, pat *pattern, refs []leafRef, now int64) error {
	g := s.g
	interval, err := g.checkInterval("sample_interval", sub.GetSampleInterval())
	if err != nil {
		return rpc.PrefixError(pat.String(), err)
	}
	heartbeat, err := g.checkInterval("heartbeat_interval", sub.GetHeartbeatInterval())
	if err != nil {
		return rpc.PrefixError(pat.String(), err)
	}
	st := &stream{heartbeat: heartbeat, suppress: sub.GetSuppressRedundant(), last: map[leafRef]value{}}
	switch sub.GetMode() {
	case gnmipb.SubscriptionMode_SAMPLE:
		if st.interval = interval; interval == 0 {
			st.interval = g.cfg.MinInterval
		}
		st.sampled = refs
		if st.suppress {
			st.beating = refs
		}
	case gnmipb.SubscriptionMode_ON_CHANGE:
		events := 0
		for _, r := range refs {
			if !leaves[r.leaf].counter {
				s.onChange[r] = true
				events++
			}
		}
		if events == 0 && len(refs) > 0 {
			return rpc.Invalidf("%s: counters change all the time; subscribe to them with SAMPLE or TARGET_DEFINED", pat)
		}
		st.beating = refs
	case gnmipb.SubscriptionMode_TARGET_DEFINED:
		if interval != 0 {
			return rpc.Invalidf("%s: sample_interval is for SAMPLE; TARGET_DEFINED chooses its own", pat)
		}
		for _, r := range refs {
			if leaves[r.leaf].counter {
				st.sampled = append(st.sampled, r)
			} else {
				s.onChange[r] = true
				st.beating = append(st.beating, r)
			}
		}
		if len(st.sampled) > 0 {
			st.interval = g.cfg.DefaultInterval
		}
	default:
		return rpc.Invalidf("%s: mode %v", pat, sub.GetMode())
	}
	s.rate += perSecond(len(st.sampled), st.interval) + perSecond(len(st.beating), st.heartbeat)
	st.sampleAt, st.beatAt = rpc.AddTime(now, st.interval), rpc.AddTime(now, st.heartbeat)
	rd := &leafReader{g: g}
	for _, r := range st.sampled {
		st.last[r] = rd.readLeaf(r)
	}
	s.streams = append(s.streams, st)
	return nil
}

// perSecond returns the number of leaves sent per second; an interval of 0 means never.
func perSecond(n int, interval int64) float64 {
	if interval <= 0 {
		return 0
	}
	return float64(n) * 1e9 / float64(interval)
}

// checkInterval checks a client's interval; 0 stays 0.
func (g *Core) checkInterval(name string, ns uint64) (int64, error) {
	if ns != 0 && (ns < uint64(g.cfg.MinInterval) || ns > 1<<62) {
		return 0, rpc.Invalidf("%s is %d ns; the shortest is %d", name, ns, g.cfg.MinInterval)
	}
	return int64(ns), nil
}

// sendSnapshot sends the current values and a sync_response; with updates_only only the latter.
func (s *Subscription) sendSnapshot(now int64) {
	if !s.list.GetUpdatesOnly() {
		rd := &leafReader{g: s.g}
		for _, r := range s.all {
			s.enqueue(r, rd.readLeaf(r), now)
		}
	}
	s.sendSync = true
	s.Drain()
}

// Recv handles a further message from the subscriber. The error is a gRPC status with which the RPC must end.
func (s *Subscription) Recv(req *gnmipb.SubscribeRequest) error {
	if err := checkExtensions(req.GetExtension()); err != nil {
		return rpc.Status(err)
	}
	switch {
	case s.closed:
		return rpc.Status(rpc.Invalidf("the subscription is closed"))
	case req.GetPoll() == nil:
		return rpc.Status(rpc.Invalidf("a subscription cannot be changed; open another RPC"))
	case s.list.GetMode() != gnmipb.SubscriptionList_POLL:
		return rpc.Status(rpc.Invalidf("poll is for POLL subscriptions, this one is %v", s.list.GetMode()))
	}
	s.sendSnapshot(s.g.cfg.Now())
	return nil
}

// Done reports whether everything is sent, which ends a ONCE subscription.
func (s *Subscription) Done() bool {
	return s.list.GetMode() == gnmipb.SubscriptionList_ONCE && s.synced && len(s.pending) == 0 && !s.sendSync
}

// Pending returns the number of leaves that wait for the subscriber.
func (s *Subscription) Pending() int { return len(s.pending) }

// Close ends the subscription.
func (s *Subscription) Close() {
	if s.closed {
		return
	}
	s.closed = true
	for i, x := range s.g.subs {
		if x == s {
			s.g.subs = append(s.g.subs[:i:i], s.g.subs[i+1:]...)
			return
		}
	}
}

// enqueue queues a value. A waiting value of the same leaf is replaced, and counted as a duplicate.
func (s *Subscription) enqueue(r leafRef, v value, now int64) {
	if i, ok := s.pendingIndex[r]; ok {
		p := &s.pending[i]
		p.value, p.time = v, now
		p.duplicates++
		return
	}
	s.pendingIndex[r] = len(s.pending)
	s.pending = append(s.pending, pendingUpdate{ref: r, value: v, time: now})
}

// Drain sends waiting values until the subscriber is not ready again.
func (s *Subscription) Drain() {
	sent := 0
	for sent < len(s.pending) && !s.closed {
		n := &gnmipb.Notification{Timestamp: s.pending[sent].time, Prefix: s.prefix}
		i := sent
		for ; i < len(s.pending) && i-sent < maxBundle; i++ {
			p := &s.pending[i]
			if p.time != n.GetTimestamp() || p.ref.port != s.pending[sent].ref.port {
				break
			}
			v, err := p.value.typed(s.list.GetEncoding())
			if err != nil {
				continue // a scalar always has an encoding
			}
			n.Update = append(n.Update, &gnmipb.Update{Path: &gnmipb.Path{Elem: s.g.leafPath(p.ref)}, Val: v, Duplicates: p.duplicates})
		}
		if !s.send(&gnmipb.SubscribeResponse{Response: &gnmipb.SubscribeResponse_Update{Update: n}}) {
			break
		}
		sent = i
	}
	if sent > 0 {
		s.pending = append(s.pending[:0], s.pending[sent:]...)
		clear(s.pendingIndex)
		for i := range s.pending {
			s.pendingIndex[s.pending[i].ref] = i
		}
	}
	if s.sendSync && len(s.pending) == 0 && !s.closed {
		if s.send(&gnmipb.SubscribeResponse{Response: &gnmipb.SubscribeResponse_SyncResponse{SyncResponse: true}}) {
			s.sendSync, s.synced = false, true
		}
	}
}

// queueChanged queues the changed leaves that are subscribed ON_CHANGE.
func (s *Subscription) queueChanged(refs []leafRef, now int64) {
	rd := &leafReader{g: s.g}
	queued := false
	for _, r := range refs {
		if s.onChange[r] {
			s.enqueue(r, rd.readLeaf(r), now)
			queued = true
		}
	}
	if queued {
		s.Drain()
	}
}

// nextDue returns the time of the next sample or heartbeat.
func (s *Subscription) nextDue() (int64, bool) {
	var next int64
	ok := false
	consider := func(t int64) {
		if !ok || t < next {
			next, ok = t, true
		}
	}
	for _, st := range s.streams {
		if st.interval > 0 && len(st.sampled) > 0 {
			consider(st.sampleAt)
		}
		if st.heartbeat > 0 && len(st.beating) > 0 {
			consider(st.beatAt)
		}
	}
	return next, ok
}

// advance queues the samples and heartbeats due at now.
func (s *Subscription) advance(now int64) {
	rd := &leafReader{g: s.g}
	queued := false
	for _, st := range s.streams {
		if st.heartbeat > 0 && now >= st.beatAt {
			st.beatAt += (now - st.beatAt + st.heartbeat) / st.heartbeat * st.heartbeat
			for _, r := range st.beating {
				v := rd.readLeaf(r)
				s.enqueue(r, v, now)
				st.last[r] = v
				queued = true
			}
		}
		if st.interval > 0 && now >= st.sampleAt {
			st.sampleAt += (now - st.sampleAt + st.interval) / st.interval * st.interval
			for _, r := range st.sampled {
				v := rd.readLeaf(r)
				if st.suppress && v == st.last[r] {
					continue
				}
				st.last[r] = v
				s.enqueue(r, v, now)
				queued = true
			}
		}
	}
	if queued {
		s.Drain()
	}
}
