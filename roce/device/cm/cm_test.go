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

// TestConnection connects two programs, compares what their queue pairs are given, and disconnects them.
func TestConnection(t *testing.T) {
	w := newWorld(t)
	client, server := w.program(0), w.program(1)
	c, s := connect(client, server)
	attr := func(x *process, id, state uint32) []byte { return x.do(cmdInitQPAttr, uint64(0), id, state) }
	for _, end := range []struct {
		a, b *process
		x, y uint32
	}{{client, server, c, s}, {server, client, s, c}} {
		if native.Uint32(attr(end.a, end.x, qpsRTS)[28:]) != native.Uint32(attr(end.b, end.y, qpsRTR)[24:]) {
			t.Error("the sender's PSN is not the one that the receiver expects")
		}
		if depth, resources := attr(end.a, end.x, qpsRTS)[130], attr(end.b, end.y, qpsRTR)[131]; depth > resources {
			t.Errorf("%d reads under way at a receiver of %d", depth, resources)
		}
	}
	if qpn := native.Uint32(attr(server, s, qpsRTR)[32:]); qpn != 77 {
		t.Errorf("the server's peer is %d, want 77", qpn)
	}
	if retry, rnr := attr(server, s, qpsRTS)[135], attr(server, s, qpsRTS)[136]; retry != 6 || rnr != 5 {
		t.Errorf("retries %d, %d of the server, want the client's 6 and 5", retry, rnr)
	}
	route := server.do(cmdQueryRoute, uint64(0), s, uint32(0))
	if src, _ := parseAddr(route[8+2*pathSize:]); src.String() != "10.0.1.2:7471" {
		t.Errorf("the server's address is %s", src)
	}
	client.do(cmdDisconnect, c)
	client.want(eventDisconnected, 0)
	server.want(eventDisconnected, 0)
	server.do(cmdDisconnect, s)
	server.none()
	w.wait(3 * fabric.Second)
	client.want(eventTimewaitExit, 0)
	server.want(eventTimewaitExit, 0)
	if n := native.Uint32(client.do(cmdDestroyID, uint64(0), c, uint32(0))); n != 5 {
		t.Errorf("%d events of the client's, want 5", n)
	}
}

// TestEndOfProgram ends a program at each step of a connection: the other one gets to know.
func TestEndOfProgram(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(client, server *process)
		dies bool // the server
		want uint32
	}{
		{"the client has asked", func(client, server *process) {
			id := client.create(20, spaceTCP)
			server.listen(server.create(10, spaceTCP), "0.0.0.0:7471", 5)
			client.ask(id, "10.0.1.2:7471", param{})
		}, true, eventRejected},
		{"connected, the client ends", func(client, server *process) { connect(client, server) }, false, eventDisconnected},
		{"connected, the server ends", func(client, server *process) { connect(client, server) }, true, eventDisconnected},
		{"accepted", func(client, server *process) {
			id := client.create(20, spaceTCP)
			server.listen(server.create(10, spaceTCP), "0.0.0.0:7471", 5)
			client.ask(id, "10.0.1.2:7471", param{})
			e := server.want(eventConnectRequest, 0)
			server.do(cmdAccept, uint64(11), connParam(param{}), e.id, uint32(0), uint64(0))
		}, false, eventRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			client, server := w.program(0), w.program(1)
			c.at(client, server)
			left, ends := server, client
			if c.dies {
				left, ends = client, server
			}
			ends.p.Close(w.now)
			w.run()
			e, err := left.event()
			if err != nil || e.kind != c.want {
				t.Fatalf("event %d, %v; want %d", e.kind, err, c.want)
			}
			left.p.Close(w.now)
			w.wait(2 * answerTime)
			for h, m := range w.hosts {
				if n := len(m.ports) + len(m.sent) + len(m.peers) + len(m.waits); n > 0 {
					t.Errorf("host %d has %d things left", h, n)
				}
			}
		})
	}
}

// TestLost has messages not arrive: nobody waits for ever.
func TestLost(t *testing.T) {
	w := newWorld(t)
	client, server := w.program(0), w.program(1)
	l := server.create(10, spaceTCP)
	server.listen(l, "0.0.0.0:7471", 5)
	w.lose = true
	client.ask(client.create(20, spaceTCP), "10.0.1.2:7471", param{})
	client.want(eventUnreachable, -int32(syscall.ETIMEDOUT))
	w.lose = false
	c := client.create(21, spaceTCP)
	client.ask(c, "10.0.1.2:7471", param{})
	e := server.want(eventConnectRequest, 0)
	w.lose = true
	server.do(cmdAccept, uint64(11), connParam(param{}), e.id, uint32(0), uint64(0))
	server.want(eventUnreachable, -int32(syscall.ETIMEDOUT))
	w.wait(answerTime + 2*fabric.Second)
	client.want(eventUnreachable, -int32(syscall.ETIMEDOUT))
}

// TestRefused has requests that no program takes.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	client, server := w.program(0), w.program(1)
	client.ask(client.create(20, spaceTCP), "10.0.1.2:7471", param{})
	client.want(eventRejected, reasonNoService)
	client.ask(client.create(21, spaceUDP), "10.0.1.2:7471", param{})
	client.want(eventUnreachable, statusUnsupported)
	l := server.create(10, spaceTCP)
	server.listen(l, "[::]:7471", 1)
	client.ask(client.create(22, spaceTCP), "10.0.1.2:7471", param{})
	e := server.want(eventConnectRequest, 0)
	client.ask(client.create(23, spaceTCP), "10.0.1.2:7471", param{}) // the backlog is 1
	client.want(eventRejected, reasonConsumer)
	private := make([]byte, privateSize)
	copy(private, "no")
	server.do(cmdReject, e.id, uint32(2), private)
	if r := client.want(eventRejected, reasonConsumer); string(r.param.private[:2]) != "no" {
		t.Errorf("private data %q", r.param.private)
	}
	client.ask(client.create(24, spaceTCP), "10.0.1.2:7471", param{})
	server.do(cmdDestroyID, uint64(0), l, uint32(0)) // with a request that it has not fetched
	client.want(eventRejected, reasonConsumer)
	server.none()
	id := client.create(25, spaceTCP)
	client.do(cmdResolveIP, make([]byte, sockaddrSize), addr("192.0.2.1:1"), id, uint32(1))
	client.want(eventAddrError, -int32(syscall.EHOSTUNREACH))
}

// TestDatagramService asks for the queue pair of a service of datagrams.
func TestDatagramService(t *testing.T) {
	w := newWorld(t)
	client, server := w.program(0), w.program(1)
	server.listen(server.create(10, spaceUDP), "10.0.1.2:7471", 5)
	client.ask(client.create(20, spaceUDP), "10.0.1.2:7471", param{private: []byte("who")})
	e := server.want(eventConnectRequest, 0)
	server.do(cmdAccept, uint64(11), connParam(param{qpn: 99}), e.id, uint32(0), uint64(0))
	if e := client.want(eventEstablished, 0); e.param.qpn != 99 || e.param.qkey != defaultQKey {
		t.Errorf("queue pair %d, key %#x", e.param.qpn, e.param.qkey)
	}
	server.none()
}

// TestPorts has programs of a host want the same port.
func TestPorts(t *testing.T) {
	w := newWorld(t)
	a, b := w.program(0), w.program(0)
	bind := func(x *process, space uint32, reuse bool, at string) (uint32, error) {
		id := x.create(1, space)
		if reuse {
			x.do(cmdSetOption, uint64(0), id, uint32(0), uint32(optionReuse), uint32(4), uint32(1))
		}
		_, err := x.try(cmdBindIP, uint64(0), addr(at), id)
		return id, err
	}
	first, err := bind(a, spaceTCP, true, "0.0.0.0:5000")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bind(b, spaceTCP, false, "10.0.0.2:5000"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port twice: %v", err)
	}
	if _, err := bind(b, spaceUDP, false, "10.0.0.2:5000"); err != nil {
		t.Errorf("another port space: %v", err)
	}
	second, err := bind(b, spaceTCP, true, "10.0.0.2:5000")
	if err != nil {
		t.Errorf("both reuse it: %v", err)
	}
	if _, err := a.try(cmdListen, first, uint32(1)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening on a port of two: %v", err)
	}
	b.do(cmdDestroyID, uint64(0), second, uint32(0))
	a.do(cmdListen, first, uint32(1))
	if _, err := bind(b, spaceTCP, true, "10.0.0.2:5000"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port on which another listens: %v", err)
	}
	if _, err := bind(b, spaceTCP, false, "10.0.1.2:1"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("another host's address: %v", err)
	}
	for at, device := range map[string]bool{"0.0.0.0:0": false, "127.0.0.1:0": false, "10.0.0.2:0": true} {
		id, err := bind(b, spaceTCP, false, at)
		if err != nil {
			t.Fatal(err)
		}
		if guid := native.Uint64(b.do(cmdQueryRoute, uint64(0), id, uint32(0))); (guid != 0) != device {
			t.Errorf("bound to %s: the device's GUID is %x; libfabric takes a device's address only without one", at, guid)
		}
	}
}

// TestMigrate moves an identifier with an event that waits to another channel.
func TestMigrate(t *testing.T) {
	w := newWorld(t)
	x := w.program(0)
	id := x.create(20, spaceTCP)
	x.do(cmdResolveIP, make([]byte, sockaddrSize), addr("127.0.0.1:7471"), id, uint32(1000))
	if x.shown != 1 {
		t.Fatalf("%d events shown, want 1", x.shown)
	}
	old, shown := x.channel, 0
	x.channel = x.open(&shown)
	x.do(cmdMigrateID, uint64(0), id, old)
	if x.shown != 0 || shown != 1 {
		t.Fatalf("%d events shown at the old channel and %d at the new, want 0 and 1", x.shown, shown)
	}
	x.shown = shown
	x.want(eventAddrResolved, 0)
}

// TestMany raises more events than are shown at once.
func TestMany(t *testing.T) {
	w := newWorld(t)
	x := w.program(0)
	var ids []uint32
	for k := range 3 * mostShown {
		id := x.create(uint64(k+1), spaceTCP)
		x.do(cmdResolveIP, make([]byte, sockaddrSize), addr("127.0.0.1:7471"), id, uint32(1000))
		ids = append(ids, id)
	}
	if x.shown != mostShown {
		t.Fatalf("%d events shown, want %d", x.shown, mostShown)
	}
	for _, id := range ids[:mostShown] {
		x.do(cmdDestroyID, uint64(0), id, uint32(0))
	}
	for range 2 * mostShown {
		x.want(eventAddrResolved, 0)
	}
	x.none()
}

// TestManyMessages has a program ask for more connections than messages of it may be under way, and another host for a
// service that is not there.
func TestManyMessages(t *testing.T) {
	w := newWorld(t)
	x := w.program(0)
	var ids []uint32
	for k := range 2 * maxSending {
		ids = append(ids, x.create(uint64(k+1), spaceTCP))
		x.do(cmdResolveIP, make([]byte, sockaddrSize), addr("10.0.1.2:7471"), ids[k], uint32(1000))
		x.want(eventAddrResolved, 0)
		x.do(cmdResolveRoute, ids[k], uint32(1000))
		x.want(eventRouteResolved, 0)
	}
	for _, id := range ids {
		if _, err := x.try(cmdConnect, connParam(param{}), id, uint32(0), uint64(0)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.sent) != maxSending {
		t.Errorf("%d messages under way, want %d", len(w.sent), maxSending)
	}
	w.run()
	for range 2 * maxSending {
		x.want(eventRejected, reasonNoService)
	}
	for k := range 2 * maxRefusals {
		r := message{kind: kindRequest, space: spaceTCP, from: uint32(k + 1), dstPort: 1}
		if err := w.hosts[1].Receive(w.now, 0, r.encode()); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.sent) != maxRefusals {
		t.Errorf("%d refusals under way, want %d", len(w.sent), maxRefusals)
	}
}

// FuzzReceive has another host send anything, while programs connect and listen.
func FuzzReceive(f *testing.F) {
	request := message{kind: kindRequest, space: spaceTCP, from: 7, dstPort: 7471, param: param{qpn: 5, private: []byte("x")}}
	f.Add(request.encode(), uint32(1))
	reply := message{kind: kindReply, space: spaceTCP, from: 8}
	f.Add(reply.encode(), uint32(2))
	f.Fuzz(func(t *testing.T, b []byte, to uint32) {
		w := newWorld(t)
		x := w.program(1)
		x.listen(x.create(10, spaceTCP), "0.0.0.0:7471", 2)
		x.ask(x.create(20, spaceTCP), "10.0.0.2:7471", param{})
		m := w.hosts[1]
		for k := range 3 {
			if len(b) >= messageSize && k > 0 { // it guesses an identifier
				native.PutUint32(b[8:], m.last+to%2)
				b[0] = byte(k + 1)
			}
			if m.Receive(w.now, 0, b) != nil {
				continue
			}
			w.sent = nil
			for e, err := x.event(); err == nil; e, err = x.event() {
				x.try(cmdAccept, uint64(11), connParam(param{}), e.id, uint32(0), uint64(0)) //nolint:errcheck // it may be too late
			}
		}
		x.p.Close(w.now)
		if n := len(m.ports) + len(m.sent) + len(m.peers) + len(m.waits); n > 0 {
			t.Errorf("%d things left", n)
		}
	})
}

// FuzzCommands has a program write anything, the first byte of a command choosing which, to two identifiers.
func FuzzCommands(f *testing.F) {
	f.Add([]byte{byte(cmdBindIP), 1, byte(cmdListen), 1, byte(cmdResolveIP), 2, byte(cmdConnect), 2, byte(cmdGetEvent), 0}, []byte{})
	f.Fuzz(func(t *testing.T, script, body []byte) {
		w := newWorld(t)
		x := w.program(0)
		x.create(1, spaceTCP)
		x.create(2, spaceUDP)
		for k := 0; k+1 < len(script) && k < 200; k += 2 {
			cmd := command(script[k] % 24)
			b := append([]byte(nil), body...)
			if n, known := least[cmd]; known {
				b = append(b, make([]byte, n)...)
				if at, has := idAt[cmd]; has {
					native.PutUint32(b[at:], uint32(script[k+1]%6))
				}
			}
			if answer, err := x.try(cmd, b); err == nil && len(answer) > 512 {
				t.Fatalf("an answer of %d bytes", len(answer))
			}
			w.run()
		}
		x.p.Close(w.now)
		w.run()
		if m := w.hosts[0]; len(m.ports)+len(m.sent)+len(m.peers)+len(m.waits) > 0 {
			t.Error("things are left")
		}
	})
}
