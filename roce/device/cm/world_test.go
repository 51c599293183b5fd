package cm

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// world is two hosts and what is under way between them.
type world struct {
	t     testing.TB
	f     *fabric.Fabric
	hosts [2]*Manager
	now   fabric.Time
	sent  []func()
	lose  bool // what is under way does not arrive
}

func newWorld(t testing.TB) *world {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, f: f}
	for h := range w.hosts {
		w.hosts[h] = New(Config{
			Fabric: f, Host: fabric.NodeID(h), GUID: uint64(h + 1), MTU: 3,
			Send: func(_ fabric.Time, dst fabric.NodeID, b []byte, done func(fabric.Time, bool)) {
				w.sent = append(w.sent, func() {
					if !w.lose {
						if err := w.hosts[dst].Receive(w.now, fabric.NodeID(h), b); err != nil {
							t.Fatal(err)
						}
					}
					done(w.now, !w.lose)
				})
			},
		})
	}
	return w
}

// run carries all that is under way.
func (w *world) run() {
	for len(w.sent) > 0 {
		next := w.sent[0]
		w.sent = w.sent[1:]
		next()
	}
}

// wait has time pass.
func (w *world) wait(d fabric.Time) {
	for end := w.now + d; w.now < end; w.now += fabric.Second {
		for _, m := range w.hosts {
			m.Tick(w.now)
		}
		w.run()
	}
}

// process is a program of a host, with a channel.
type process struct {
	w       *world
	p       *Program
	channel uint32
	shown   int
}

func (w *world) program(host int) *process {
	w.t.Helper()
	x := &process{w: w, p: w.hosts[host].Open()}
	x.channel = x.open(&x.shown)
	return x
}

func (x *process) open(shown *int) uint32 {
	x.w.t.Helper()
	number, err := x.p.OpenChannel(func(n int) { *shown += n })
	if err != nil {
		x.w.t.Fatal(err)
	}
	return number
}

// try writes a command, whose parts are numbers of 4 or 8 bytes and bytes.
func (x *process) try(cmd command, parts ...any) ([]byte, error) {
	b := make([]byte, headSize)
	native.PutUint32(b, uint32(cmd))
	for _, part := range parts {
		switch v := part.(type) {
		case uint32:
			b = native.AppendUint32(b, v)
		case uint64:
			b = native.AppendUint64(b, v)
		case []byte:
			b = append(b, v...)
		}
	}
	answer, dropped, err := x.p.Do(x.w.now, x.channel, b)
	x.shown -= int(dropped)
	return answer, err
}

func (x *process) do(cmd command, parts ...any) []byte {
	x.w.t.Helper()
	answer, err := x.try(cmd, parts...)
	if err != nil {
		x.w.t.Fatalf("command %d: %v", cmd, err)
	}
	x.w.run()
	return answer
}

func (x *process) create(uid uint64, space uint32) uint32 {
	x.w.t.Helper()
	return native.Uint32(x.do(cmdCreateID, uid, uint64(0), space, uint32(0)))
}

func addr(a string) []byte {
	b := make([]byte, sockaddrSize)
	putAddr(b, netip.MustParseAddrPort(a))
	return b
}

func (x *process) listen(id uint32, at string, backlog uint32) {
	x.w.t.Helper()
	x.do(cmdBindIP, uint64(0), addr(at), id)
	x.do(cmdListen, id, backlog)
}

func connParam(p param) []byte {
	b := make([]byte, paramSize)
	p.put(b)
	b[paramSize-1] = 1
	return b
}

// fetched is an event as a program gets it.
type fetched struct {
	uid    uint64
	id     uint32
	kind   uint32
	status int32
	param  param
}

func (x *process) event() (e fetched, err error) {
	if x.shown == 0 {
		return e, syscall.EAGAIN
	}
	x.shown--
	b, err := x.try(cmdGetEvent, uint64(0))
	if err != nil {
		return e, err
	}
	e = fetched{uid: native.Uint64(b), id: native.Uint32(b[8:]), kind: native.Uint32(b[12:]), status: int32(native.Uint32(b[16:]))}
	e.param, _ = parseParam(b[eventParam : eventParam+paramSize])
	return e, nil
}

// want fetches an event of a kind.
func (x *process) want(kind uint32, status int32) fetched {
	x.w.t.Helper()
	e, err := x.event()
	if err != nil || e.kind != kind || e.status != status {
		x.w.t.Fatalf("event %d, status %d, %v; want event %d, status %d", e.kind, e.status, err, kind, status)
	}
	return e
}

func (x *process) none() {
	x.w.t.Helper()
	if e, err := x.event(); !errors.Is(err, syscall.EAGAIN) {
		x.w.t.Fatalf("event %d, %v; want none", e.kind, err)
	}
}

// ask resolves an address and asks for a connection.
func (x *process) ask(id uint32, to string, p param) {
	x.w.t.Helper()
	x.do(cmdResolveIP, make([]byte, sockaddrSize), addr(to), id, uint32(1000))
	x.want(eventAddrResolved, 0)
	x.do(cmdResolveRoute, id, uint32(1000))
	x.want(eventRouteResolved, 0)
	x.do(cmdConnect, connParam(p), id, uint32(0), uint64(0))
}

// connect connects two programs of spaceTCP. It returns both identifiers.
func connect(client, server *process) (uint32, uint32) {
	client.w.t.Helper()
	l := server.create(10, spaceTCP)
	server.listen(l, "0.0.0.0:7471", 5)
	c := client.create(20, spaceTCP)
	client.ask(c, "10.0.1.2:7471", param{qpn: 77, private: []byte("hello"), resources: 3, depth: 4, retry: 6, rnr: 5})
	e := server.want(eventConnectRequest, 0)
	if e.uid != 10 || e.param.qpn != 77 || string(e.param.private[:5]) != "hello" || len(e.param.private) != 56 ||
		e.param.resources != 4 || e.param.depth != 3 {
		client.w.t.Fatalf("request %+v", e)
	}
	server.do(cmdAccept, uint64(11), connParam(param{qpn: 88, private: []byte("yes"), resources: 2, depth: 1}), e.id, uint32(0), uint64(0))
	r := client.want(eventConnectResponse, 0)
	if r.uid != 20 || r.param.qpn != 88 || len(r.param.private) != 196 || r.param.resources != 1 || r.param.depth != 2 {
		client.w.t.Fatalf("response %+v", r)
	}
	client.do(cmdAccept, uint64(0), make([]byte, paramSize), c, uint32(0), uint64(0))
	if e := server.want(eventEstablished, 0); e.uid != 11 {
		client.w.t.Fatalf("established %+v", e)
	}
	return c, e.id
}
