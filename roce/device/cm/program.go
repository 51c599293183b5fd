package cm

import (
	"math/rand/v2"
	"net/netip"
	"syscall"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// Program is what one process has open at the connection manager: its event channels and identifiers.
type Program struct {
	m        *Manager
	channels map[uint32]*eventChannel
	idents   map[uint32]*connID
	lastChan uint32
	lastID   uint32

	sending int       // messages under way
	later   []*connID // those of these identifiers wait
}

// Open returns the state of a new process, which has no channel yet.
func (m *Manager) Open() *Program {
	return &Program{m: m, channels: map[uint32]*eventChannel{}, idents: map[uint32]*connID{}}
}

// Close ends all channels and identifiers of a process.
func (p *Program) Close(now fabric.Time) {
	for number := range p.channels {
		p.CloseChannel(now, number)
	}
}

// eventChannel is an event channel that a program has opened.
type eventChannel struct {
	events []event
	// shown is how many of the first events the program can see that they wait.
	shown int
	show  func(n int)
}

// maxShown is how many events a program sees at once. A socket has room for as many bytes.
const maxShown = 64

// OpenChannel makes an event channel. It calls show each time an event starts to wait; n is the number of events that
// have become ready.
func (p *Program) OpenChannel(show func(n int)) (number uint32, err error) {
	if len(p.channels) >= maxChannels {
		return 0, syscall.EMFILE
	}
	for p.lastChan++; p.lastChan == 0 || p.channels[p.lastChan] != nil; p.lastChan++ {
	}
	p.channels[p.lastChan] = &eventChannel{show: show}
	return p.lastChan, nil
}

// CloseChannel ends an event channel and its identifiers.
func (p *Program) CloseChannel(now fabric.Time, number uint32) {
	c := p.channels[number]
	if c == nil {
		return
	}
	c.show = func(int) {}
	for _, i := range p.idents {
		if i.channel == c && i.program != nil {
			i.destroy(now)
		}
	}
	delete(p.channels, number)
}

func (c *eventChannel) push(e event) {
	c.events = append(c.events, e)
	c.showMore()
}

func (c *eventChannel) showMore() {
	if n := min(len(c.events), maxShown) - c.shown; n > 0 {
		c.shown += n
		c.show(n)
	}
}

// discard removes matching events.
func (c *eventChannel) discard(which func(event) bool) {
	var left []event
	for _, e := range c.events {
		if !which(e) {
			left = append(left, e)
		}
	}
	c.events = left
}

// hide returns how many events are shown that are there no more.
func (c *eventChannel) hide() (dropped uint32) {
	if c.shown > len(c.events) {
		dropped = uint32(c.shown - len(c.events))
		c.shown = len(c.events)
	}
	return dropped
}

// fetch answers cmdGetEvent.
func (c *eventChannel) fetch() ([]byte, error) {
	c.shown = max(c.shown-1, 0)
	if len(c.events) == 0 {
		return nil, syscall.EAGAIN
	}
	e := c.events[0]
	c.events = c.events[1:]
	c.showMore()
	e.of.fetched++
	return e.bytes, nil
}

// newIdent makes an identifier, with the least number that is free from the last one on.
func (p *Program) newIdent(c *eventChannel, space uint16, uid uint64) (*connID, error) {
	if len(p.idents) >= maxIdents {
		return nil, syscall.ENOMEM
	}
	for p.lastID = p.lastID%65535 + 1; p.idents[p.lastID] != nil; p.lastID = p.lastID%65535 + 1 {
	}
	i := &connID{
		program: p, owner: p, channel: c, number: p.lastID, uid: uid, space: space, psn: rand.Uint32() & 0xffffff, ackTimeout: defaultAckTimeout,
	}
	p.idents[i.number] = i
	return i, nil
}

// minLengths maps commands to their minimum length in bytes, without header.
var minLengths = map[command]int{
	cmdCreateID: createSize, cmdDestroyID: destroySize, cmdBindIP: bindSize, cmdResolveIP: resolveSize, cmdResolveRoute: routeSize,
	cmdQueryRoute: querySize, cmdConnect: connectSize - 8, cmdListen: listenSize, cmdAccept: acceptSize - 8, cmdReject: rejectSize,
	cmdDisconnect: 4, cmdInitQPAttr: initSize, cmdGetEvent: 8, cmdSetOption: optionSize, cmdNotify: notifySize, cmdMigrateID: migrateSize,
}

// idOffset is where the identifier is in commands that have one.
var idOffset = map[command]int{
	cmdDestroyID: 8, cmdBindIP: bindSize - 4, cmdResolveIP: resolveSize - 8, cmdResolveRoute: 0, cmdQueryRoute: 8,
	cmdConnect: paramSize, cmdListen: 0, cmdAccept: 8 + paramSize, cmdReject: 0, cmdDisconnect: 0, cmdInitQPAttr: 8, cmdSetOption: 8,
	cmdNotify: 0, cmdMigrateID: 8,
}

// Do carries out a command of librdmacm (struct rdma_ucm_cmd_hdr and its arguments) that the process wrote to an event
// channel, and returns the answer. dropped is the number of events that were announced and no longer exist, because the
// command ended their identifier or moved it to another channel.
func (p *Program) Do(now fabric.Time, number uint32, b []byte) (answer []byte, dropped uint32, err error) {
	c := p.channels[number]
	if c == nil || len(b) < headSize {
		return nil, 0, syscall.EINVAL
	}
	cmd := command(native.Uint32(b))
	b = b[headSize:]
	n, known := minLengths[cmd]
	switch {
	case !known:
		return nil, 0, syscall.ENOSYS
	case len(b) < n:
		return nil, 0, syscall.EINVAL
	}
	switch cmd {
	case cmdGetEvent:
		answer, err = c.fetch()
		return answer, 0, err
	case cmdCreateID:
		answer, err = p.create(c, b)
		return answer, 0, err
	}
	i := p.idents[native.Uint32(b[idOffset[cmd]:])]
	if i == nil {
		return nil, 0, syscall.ENOENT
	}
	from := i.channel
	answer, err = i.runCommand(now, cmd, c, b)
	return answer, from.hide(), err
}

func (p *Program) create(c *eventChannel, b []byte) ([]byte, error) {
	space := native.Uint16(b[16:])
	if space != spaceTCP && space != spaceUDP {
		return nil, syscall.EPROTONOSUPPORT
	}
	i, err := p.newIdent(c, space, native.Uint64(b))
	if err != nil {
		return nil, err
	}
	return native.AppendUint32(nil, i.number), nil
}

// runCommand carries out a command about an identifier.
func (i *connID) runCommand(now fabric.Time, cmd command, c *eventChannel, b []byte) (answer []byte, err error) {
	m := i.program.m
	switch cmd {
	case cmdDestroyID:
		i.destroy(now)
		answer = native.AppendUint32(nil, i.fetched)
	case cmdBindIP:
		a, ok := parseAddr(b[8:])
		switch {
		case !ok:
			err = syscall.EAFNOSUPPORT
		case i.state != stateIdle:
			err = syscall.EINVAL
		default:
			if err = m.bindAddress(i, a); err == nil {
				i.state = stateBound
			}
		}
	case cmdResolveIP:
		err = i.resolve(b)
	case cmdResolveRoute:
		if i.state != stateResolved {
			return nil, syscall.EINVAL
		}
		i.state = stateRouted
		i.raiseEvent(eventRouteResolved, 0, param{})
	case cmdQueryRoute:
		answer = i.route()
	case cmdConnect, cmdAccept:
		uid := uint64(0)
		if cmd == cmdAccept {
			uid = native.Uint64(b)
			b = b[8:]
		}
		p, ok := parseParam(b)
		var vendor, options uint32
		if ece := b[paramSize+8:]; len(ece) >= 8 {
			vendor, options = native.Uint32(ece), native.Uint32(ece[4:])
		}
		switch {
		case !ok || !p.valid && cmd == cmdConnect:
			err = syscall.EINVAL
		case cmd == cmdConnect:
			err = i.connect(now, &p, vendor, options)
		default:
			err = i.accept(now, uid, &p, vendor, options)
		}
	case cmdListen:
		err = i.listen(native.Uint32(b[4:]))
	case cmdReject:
		n := int(b[4])
		if (i.state != stateRequested && i.state != stateAnswered) || n > privateMost(kindReject, i.space) {
			return nil, syscall.EINVAL
		}
		i.releaseBacklog()
		i.reject(now, uint32(b[5]), b[8:8+n])
		i.state = stateEnded
	case cmdDisconnect:
		err = i.disconnect(now)
	case cmdInitQPAttr:
		answer, err = i.attributes(native.Uint32(b[12:]))
	case cmdSetOption:
		err = i.option(b)
	case cmdNotify:
		if native.Uint32(b[4:]) == uverbs.EventCommEst && i.state == stateAccepted {
			m.established(i)
		}
	case cmdMigrateID:
		i.migrate(c)
		answer = native.AppendUint32(nil, i.fetched)
	}
	return answer, err
}

func (i *connID) resolve(b []byte) error {
	m := i.program.m
	dst, ok := parseAddr(b[sockaddrSize:])
	if !ok {
		return syscall.EAFNOSUPPORT
	}
	if i.state == stateIdle {
		src, given := parseAddr(b)
		if !given {
			src = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
			if dst.Addr().Is6() {
				src = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
			}
		}
		if err := m.bindAddress(i, src); err != nil {
			return err
		}
		i.state = stateBound
	}
	if i.state != stateBound {
		return syscall.EINVAL
	}
	host, ok := m.hostOf(dst.Addr())
	if !ok {
		i.raiseEvent(eventAddrError, -int32(syscall.EHOSTUNREACH), param{})
		return nil
	}
	i.peer, i.dst, i.state, i.device = host, dst, stateResolved, true
	if i.src.Addr().IsUnspecified() {
		i.src = addrPort(m.addr, i.src.Port(), i.src.Addr().Is6())
	}
	i.raiseEvent(eventAddrResolved, 0, param{})
	return nil
}

func (i *connID) listen(backlog uint32) error {
	m := i.program.m
	if i.state == stateIdle {
		if err := m.bindAddress(i, addrPort(m.addr, 0, false)); err != nil {
			return err
		}
		i.state = stateBound
	}
	if i.state != stateBound {
		return syscall.EINVAL
	}
	if !m.portFree(i, i.src.Port(), false) {
		return syscall.EADDRINUSE
	}
	if backlog == 0 || backlog > maxBacklog {
		backlog = maxBacklog
	}
	i.backlog, i.state = backlog, stateListening
	return nil
}

// option sets an option, whose value is behind the command.
func (i *connID) option(b []byte) error {
	level, name, value := native.Uint32(b[12:]), native.Uint32(b[16:]), b[optionSize:]
	if level != 0 {
		return syscall.ENOSYS
	}
	want := 4
	if name == optionTOS || name == optionAckTimeout {
		want = 1
	}
	if int(native.Uint32(b[20:])) != want || len(value) < want {
		return syscall.EINVAL
	}
	switch name {
	case optionTOS:
		i.tos = value[0]
	case optionReuse:
		i.reuse = native.Uint32(value) != 0
	case optionV6Only:
		i.v6only = native.Uint32(value) != 0
	case optionAckTimeout:
		i.ackTimeout = value[0] & 31
	default:
		return syscall.ENOSYS
	}
	return nil
}

// migrate moves an identifier, and its waiting events, to another event channel.
func (i *connID) migrate(to *eventChannel) {
	if i.channel == to {
		return
	}
	var moved []event
	i.channel.discard(func(e event) bool {
		if e.of == i {
			moved = append(moved, e)
		}
		return e.of == i
	})
	i.channel = to
	for _, e := range moved {
		to.push(e)
	}
}
