package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/host"
)

// maxHostLine bounds a line of a host's event log, in bytes.
const maxHostLine = 1 << 20

// ReadHostLog returns what a host's event log tells: its messages, pieces with their paths, what it heard and its flips.
// Times are the host's own, from its beginning. The name of the host is returned, too.
func ReadHostLog(r io.Reader, f *fabric.Fabric) (_ *Recording, name string, err error) {
	l := &hostLog{rec: New(f, Options{}), f: f, host: -1}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxHostLine)
	n := 0
	for lines.Scan() {
		n++
		if err := l.line(lines.Text()); err != nil {
			return nil, "", fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, "", fmt.Errorf("line %d: %w", n+1, err)
	}
	if l.host < 0 {
		return nil, "", errors.New("no line says whose log it is: the first is new host=NAME")
	}
	return l.rec.EndBare(), f.Name(l.host), nil
}

// hostLog is a log that is being read.
type hostLog struct {
	rec  *Recorder
	f    *fabric.Fabric
	host fabric.NodeID
	now  fabric.Time
}

// pairs are the words KEY=VALUE of a line.
type pairs map[string]string

func (p pairs) number(key string) uint64 {
	n, _ := strconv.ParseUint(p[key], 0, 64) // what cannot be read counts as left out
	return n
}

func (l *hostLog) node(p pairs, key string) fabric.NodeID {
	id, err := l.f.NodeByName(p[key])
	if err != nil {
		return -1
	}
	return id
}

func (l *hostLog) line(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	p := pairs{}
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		p[key] = value
	}
	switch {
	case host.IsConfig(text):
		id := l.node(p, "host")
		if id < 0 || int(id) >= l.f.Hosts() {
			return fmt.Errorf("%q is no host of this fabric; name the fabric that the log is of", p["host"])
		}
		l.host = id
		l.rec.exact = true
		return nil
	case l.host < 0:
		return errors.New("want new host=NAME first")
	case host.IsEffect(text):
		return l.effect(words[0], p)
	}
	if err := l.now.UnmarshalText([]byte(words[0])); err != nil {
		return fmt.Errorf("%q is no time: %w", words[0], err)
	}
	if len(words) > 1 {
		l.call(words[1], p)
	}
	return nil
}

// call takes what the host was told.
func (l *hostLog) call(name string, p pairs) {
	switch name {
	case "post":
		if dst := l.node(p, "dst"); dst >= 0 {
			l.rec.Posted(l.now, l.host, p.number("message"), dst, int64(p.number("bytes")))
		}
	case "done", "refuse":
		l.rec.Closed(l.now, l.host, p.number("qp"))
	case "timeout":
		l.rec.TimedOut(l.now, l.host, p.number("qp"))
	case "update", "return":
		if _, beat := p["heartbeat"]; !beat {
			l.rec.Told(l.now, l.host)
		}
	case "quench":
		if at := l.node(p, "switch"); at >= 0 {
			_, notice := p["notice"]
			from, _ := netip.ParseAddr(p["from"]) // none: it is not shown
			l.rec.Quenched(l.now, l.host, hostagent.Quench{Dst: from, Switch: at, Port: fabric.PortNo(p.number("port")), Notice: notice})
		}
	default:
		l.rec.Answered(l.host)
	}
}

// effect takes what the host did about it.
func (l *hostLog) effect(name string, p pairs) error {
	switch name {
	case "open":
		m := endpoint.Message{
			QP: endpoint.QP(p.number("qp")), ID: p.number("message"), Dst: l.node(p, "dst"), Bytes: int64(p.number("bytes")),
			Label: fabric.Label(p.number("label")),
		}
		if m.Dst < 0 || int(m.Dst) >= l.f.Hosts() {
			return fmt.Errorf("%q is no host of this fabric", p["dst"])
		}
		if err := m.Start.UnmarshalText([]byte(p["start"])); err != nil {
			return fmt.Errorf("start=%s: %w", p["start"], err)
		}
		l.rec.Opened(l.now, l.host, m)
	case "close":
		l.rec.Closed(l.now, l.host, p.number("qp"))
	case "sent":
		l.rec.Sent(l.now, p.number("message"))
	case "flipped":
		reason := hostagent.ByTimeout
		for r := hostagent.ByTimeout; r <= hostagent.Return; r++ {
			if r.String() == p["reason"] {
				reason = r
			}
		}
		l.rec.Flipped(l.now, l.host, hostagent.Flip{
			QP: hostagent.QP(p.number("qp")), From: fabric.Label(p.number("from")), To: fabric.Label(p.number("to")), Reason: reason,
		})
	}
	return nil
}
