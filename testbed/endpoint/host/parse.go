package host

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
)

// ErrLog is wrapped by every error about a line of an event log.
var ErrLog = errors.New("host: bad line of an event log")

// IsConfig reports whether a line of an event log begins a core, and IsEffect whether
// it is an effect: the other lines are calls.
func IsConfig(line string) bool { return strings.HasPrefix(line, "new ") }

// IsEffect reports whether a line of an event log is an effect.
func IsEffect(line string) bool { return strings.HasPrefix(line, "  ") }

// words is a line of an event log after its first word.
type words struct {
	f    *fabric.Fabric
	keys map[string][]string // the values of each key, "" of a word alone
	err  error
}

func split(f *fabric.Fabric, text []string) *words {
	w := &words{f: f, keys: map[string][]string{}}
	for _, word := range text {
		key, value, _ := strings.Cut(word, "=")
		w.keys[key] = append(w.keys[key], value)
	}
	return w
}

func (w *words) fail(key, value string, err error) {
	if w.err == nil {
		w.err = fmt.Errorf("%s=%s: %w", key, value, err)
	}
}

// take returns a key's value, the first if there are several, "" if there is none.
func (w *words) take(key string) string {
	values := w.keys[key]
	delete(w.keys, key)
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (w *words) flag(key string) bool {
	_, ok := w.keys[key]
	delete(w.keys, key)
	return ok
}

func (w *words) number(key string, bits int) uint64 {
	text := w.take(key)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 0, bits)
	if err != nil {
		w.fail(key, text, err)
	}
	return n
}

func (w *words) share(key string) float64 {
	text := w.take(key)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.fail(key, text, err)
	}
	return v
}

func (w *words) qp() endpoint.QP     { return endpoint.QP(w.number("qp", 32)) }
func (w *words) label() fabric.Label { return fabric.Label(w.number("label", 16)) }

func (w *words) time(key string) (t fabric.Time) {
	text := w.take(key)
	if text == "" {
		return 0
	}
	if text == "none" {
		return -1
	}
	if err := t.UnmarshalText([]byte(text)); err != nil {
		w.fail(key, text, err)
	}
	return t
}

// node reads a node's name, or its number if it has none.
func (w *words) node(key string) fabric.NodeID {
	text := w.take(key)
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return fabric.NodeID(n)
	}
	id, err := w.f.NodeByName(text)
	if err != nil {
		w.fail(key, text, err)
	}
	return id
}

// host is node for what only a host can be.
func (w *words) host(key string) fabric.NodeID {
	id := w.node(key)
	if id < 0 || int(id) >= w.f.Hosts() {
		w.fail(key, fmt.Sprint(int(id)), errors.New("want a host"))
	}
	return id
}

// link reads a link's name, or its number if it has none.
func (w *words) link(text string) (uint32, error) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return uint32(n), nil
	}
	id, err := w.f.LinkByName(text)
	return uint32(id), err
}

func (w *words) unescaped(key, text string) string {
	s, err := url.QueryUnescape(text)
	if err != nil {
		w.fail(key, text, err)
	}
	return s
}

// end returns the first error, or which word is unknown.
func (w *words) end(line string) error {
	if w.err == nil {
		if unknown := slices.Sorted(maps.Keys(w.keys)); len(unknown) > 0 {
			w.err = fmt.Errorf("unknown word %q", unknown[0])
		}
	}
	if w.err != nil {
		return fmt.Errorf("%w: %q: %w", ErrLog, line, w.err)
	}
	return nil
}

// ParseConfig reads the line that begins a core. The error wraps [ErrLog].
func ParseConfig(f *fabric.Fabric, line string) (Config, error) {
	text, ok := strings.CutPrefix(line, "new ")
	if !ok {
		return Config{}, fmt.Errorf("%w: %q does not begin a core; a log begins with new", ErrLog, line)
	}
	w := split(f, strings.Fields(text))
	var c Config
	c.Fabric, c.Host, c.Scheme = f, w.node("host"), w.take("scheme")
	c.Seed, c.BatchWindow = w.number("seed", 64), w.time("window")
	for _, p := range w.keys["param"] {
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		key, value, _ := strings.Cut(p, ":")
		c.Params[key] = w.unescaped("param", value)
	}
	delete(w.keys, "param")
	for _, x := range configTimes(&c) {
		*x.value = w.time(x.key)
	}
	for _, x := range configNumbers(&c) {
		*x.value = int(w.number(x.key, 31))
	}
	for _, x := range configShares(&c) {
		*x.value = w.share(x.key)
	}
	for _, x := range configFlags(&c) {
		*x.value = w.flag(x.key)
	}
	return c, w.end(line)
}

// ParseInput reads the line of a call: when it was, and what makes it again. The
// error wraps [ErrLog].
func ParseInput(f *fabric.Fabric, line string) (at fabric.Time, call func(*Core), err error) {
	text := strings.Fields(line)
	if len(text) < 2 {
		return 0, nil, fmt.Errorf("%w: %q; want a time and a call", ErrLog, line)
	}
	if err := at.UnmarshalText([]byte(text[0])); err != nil {
		return 0, nil, fmt.Errorf("%w: %q: %w", ErrLog, line, err)
	}
	w := split(f, text[2:])
	call = w.call(at, text[1])
	if err := w.end(line); err != nil {
		return 0, nil, err
	}
	return at, call, nil
}

// call returns what makes a call.
func (w *words) call(at fabric.Time, name string) func(*Core) {
	switch name {
	case "post":
		m := hostagent.Flow{ID: w.number("message", 64), Dst: w.node("dst"), Bytes: int64(w.number("bytes", 63))}
		return func(c *Core) { c.Post(at, m) }
	case "tick":
		return func(c *Core) { c.Tick(at) }
	case "received":
		return func(c *Core) { c.Received(at) }
	case "label":
		qp := w.qp()
		return func(c *Core) {
			if _, open := c.qps[qp]; c.packets != nil && open {
				c.Label(at, qp)
			}
		}
	case "echo":
		qp, e := w.qp(), endpoint.Echo{Label: w.label(), RTT: w.time("rtt"), Marked: w.flag("marked")}
		return func(c *Core) {
			if c.packets != nil {
				c.Echo(at, qp, e)
			}
		}
	case "lost-by":
		qp, l := w.qp(), w.label()
		return func(c *Core) {
			if c.lostBy != nil {
				c.LostBy(at, qp, l)
			}
		}
	case "acked":
		qp, n := w.qp(), int64(w.number("bytes", 63))
		return func(c *Core) { c.Acked(at, qp, n) }
	case "done":
		qp := w.qp()
		return func(c *Core) { c.Done(at, qp) }
	case "refuse":
		qp := w.qp()
		return func(c *Core) { c.Refuse(at, qp) }
	case "timeout":
		qp := w.qp()
		return func(c *Core) { c.Timeout(at, qp) }
	case "lost":
		qp, n := w.qp(), int(w.number("packets", 31))
		return func(c *Core) {
			if c.losses != nil {
				c.Lost(at, qp, n)
			}
		}
	case "unanswered":
		qp, others := w.qp(), w.flag("others")
		return func(c *Core) {
			if c.losses != nil {
				c.Unanswered(at, qp, others)
			}
		}
	case "congested":
		peer, l, in := w.host("peer"), w.label(), w.flag("inbound")
		return func(c *Core) {
			if c.losses != nil {
				c.Congested(at, peer, l, in)
			}
		}
	case "quench":
		q := w.quench()
		return func(c *Core) { c.Quench(at, q) }
	case "update":
		u := w.update()
		return func(c *Core) { c.Update(at, u) }
	case "probe":
		r := ProbeRequest{
			ID: w.number("id", 64), Dst: w.node("dst"), Label: w.label(),
			Packets: int(w.number("packets", 31)), Timeout: w.time("timeout"), Early: w.flag("early"),
		}
		return func(c *Core) { c.Probe(at, r) }
	case "leave":
		return func(c *Core) { c.Leave(at) }
	case "return":
		u := w.update()
		return func(c *Core) { c.Return(at, u) }
	}
	w.fail("call", name, errors.New("unknown"))
	return nil
}

func (w *words) quench() hostagent.Quench {
	q := hostagent.Quench{
		Switch: w.node("switch"), Port: fabric.PortNo(w.number("port", 16)), Epoch: uint32(w.number("epoch", 32)),
		Label: w.label(), DstQP: uint32(w.number("qpn", 24)), PSN: uint32(w.number("psn", 24)),
		Labelled: w.flag("labelled"), Rerouted: w.flag("rerouted"), Notice: w.flag("notice"),
	}
	text := w.take("from")
	var err error
	if q.Dst, err = netip.ParseAddr(text); err != nil {
		w.fail("from", text, err)
	}
	return q
}

func (w *words) update() *statepb.Update {
	u := &statepb.Update{
		Instance: w.unescaped("instance", w.take("instance")), Epoch: w.number("epoch", 64),
		Snapshot: w.flag("snapshot"), Heartbeat: w.flag("heartbeat"),
	}
	for _, text := range w.keys["link"] {
		parts := strings.Split(text, ":")
		if len(parts) != 3 {
			w.fail("link", text, errors.New("want LINK:STATE:EPOCH"))
			break
		}
		id, err := w.link(parts[0])
		epoch, bad := strconv.ParseUint(parts[2], 10, 64)
		if err := errors.Join(err, bad); err != nil {
			w.fail("link", text, err)
		}
		switch parts[1] {
		case "up", "down":
			u.Links = append(u.Links, &statepb.LinkState{Link: id, Up: parts[1] == "up", Epoch: epoch})
		case "suspected", "clear":
			u.Suspects = append(u.Suspects, &statepb.Suspect{Link: id, Suspected: parts[1] == "suspected", Epoch: epoch})
		default:
			w.fail("link", text, errors.New("want up, down, suspected or clear"))
		}
	}
	delete(w.keys, "link")
	return u
}
