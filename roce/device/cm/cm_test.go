package cm

import (
	"errors"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

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
		if native.Uint32(attr(end.a, end.x, uverbs.QPSRTS)[28:]) != native.Uint32(attr(end.b, end.y, uverbs.QPSRTR)[24:]) {
			t.Error("the sender's PSN is not the one that the receiver expects")
		}
		if depth, resources := attr(end.a, end.x, uverbs.QPSRTS)[130], attr(end.b, end.y, uverbs.QPSRTR)[131]; depth > resources {
			t.Errorf("%d reads under way at a receiver of %d", depth, resources)
		}
	}
	if qpn := native.Uint32(attr(server, s, uverbs.QPSRTR)[32:]); qpn != 77 {
		t.Errorf("the server's peer is %d, want 77", qpn)
	}
	if retry, rnr := attr(server, s, uverbs.QPSRTS)[135], attr(server, s, uverbs.QPSRTS)[136]; retry != 6 || rnr != 5 {
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
			w.wait(2 * answerTimeout)
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
	w.wait(answerTimeout + 2*fabric.Second)
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
	for k := range 3 * maxShown {
		id := x.create(uint64(k+1), spaceTCP)
		x.do(cmdResolveIP, make([]byte, sockaddrSize), addr("127.0.0.1:7471"), id, uint32(1000))
		ids = append(ids, id)
	}
	if x.shown != maxShown {
		t.Fatalf("%d events shown, want %d", x.shown, maxShown)
	}
	for _, id := range ids[:maxShown] {
		x.do(cmdDestroyID, uint64(0), id, uint32(0))
	}
	for range 2 * maxShown {
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
			if n, known := minLengths[cmd]; known {
				b = append(b, make([]byte, n)...)
				if at, has := idOffset[cmd]; has {
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
