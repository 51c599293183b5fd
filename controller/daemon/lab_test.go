package daemon

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/backoff"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/gnmi"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/p4runtime"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loadProgram = sync.OnceValues(func() (*program.Program, error) { return program.Load(p4src.V1ModelJSON()) })

var loadPipeline = sync.OnceValues(func() (*p4rt.Pipeline, error) {
	return p4rt.NewPipeline(p4src.V1ModelP4Info(), p4src.V1ModelJSON())
})

func fatTree(t testing.TB, k int) *fabric.Fabric {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lab is a fabric's switches, each behind gRPC in this process.
type lab struct {
	t        testing.TB
	fake     bool // in a synctest bubble
	tcp      bool // over the loopback instead of within the process
	f        *fabric.Fabric
	mu       sync.Mutex
	switches map[string]*labSwitch  // by address, which is the switch's name
	cut      map[fabric.LinkID]bool // links that carry nothing
	conns    map[route][]net.Conn
	blocked  map[route]bool
	hung     map[string]*hang // by controller; nil: they never hang
	// The switches' kind and ports; nil: ours.
	profile *targets.Profile
	ports   map[fabric.NodeID]*targets.PortMap
}

// route is a controller's connection to a switch.
type route struct {
	controller, addr string
}

type labSwitch struct {
	lab   *lab
	id    fabric.NodeID
	mu    sync.Mutex // around core and ports
	ports *portstate.Ports
	core  *p4runtime.Core
	gn    *gnmi.Core
	epoch uint32 // of port events

	writes, entries, pushes int                          // RPCs, updates, pipelines
	portStates              map[uint16]byte              // what packet-outs said of ports by number: 1 up, 0 down
	fault                   func(*p4.WriteRequest) error // nil: none

	srv     *grpc.Server                                // nil: down
	connect func(ctx context.Context) (net.Conn, error) // nil: down
	stop    context.CancelFunc
	done    sync.WaitGroup
}

func newLab(t testing.TB, f *fabric.Fabric, tcp bool) *lab {
	t.Helper()
	return newLabOf(t, f, tcp, nil)
}

func newLabOf(t testing.TB, f *fabric.Fabric, tcp bool, setup func(*lab)) *lab {
	t.Helper()
	if _, err := loadProgram(); err != nil {
		t.Fatal(err)
	}
	l := &lab{
		t: t, f: f, tcp: tcp, switches: map[string]*labSwitch{}, cut: map[fabric.LinkID]bool{},
		conns: map[route][]net.Conn{}, blocked: map[route]bool{},
	}
	if setup != nil {
		setup(l)
	}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		s := &labSwitch{lab: l, id: id}
		s.boot(nil)
		s.up()
		l.switches[f.Name(id)] = s
	}
	return l
}

// listen returns a listener, and how to connect to it.
func (l *lab) listen() (net.Listener, func(context.Context) (net.Conn, error)) {
	if !l.tcp {
		lis := bufconn.Listen(1 << 16)
		return lis, lis.DialContext
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Skipf("no TCP on the loopback: %v", err)
	}
	return lis, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", lis.Addr().String())
	}
}

// boot starts the switch with empty tables, ports as given; nil: all up.
func (s *labSwitch) boot(down map[uint32]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var configs []portstate.Config
	for p := 1; p <= s.lab.f.Node(s.id).Ports(); p++ {
		m := s.lab.ports[s.id]
		number, _ := m.ID(fabric.PortNo(p))
		configs = append(configs, portstate.Config{Name: m.Name(fabric.PortNo(p)), Number: number, Down: down[uint32(p)]})
	}
	now := func() int64 { return time.Now().UnixNano() }
	var err error
	if s.ports, err = portstate.New(configs); err != nil {
		s.lab.t.Fatal(err)
	}
	s.core, err = p4runtime.New(p4runtime.Config{
		DeviceID: uint64(s.id) + 1, Ports: s.ports, Now: now,
		Load: func([]byte) (*program.Program, error) { return loadProgram() },
		// The data plane learns of ports by packets that the switch makes.
		OnPortEvent: func(number uint32, up bool) {
			s.epoch++
			packet := p4src.AppendPortEvent(nil, uint16(number), up, s.epoch)
			if sw := s.core.Switch(); sw != nil {
				sw.Process(interp.Input{Port: p4src.PortEventPort, Data: packet}, func(interp.Output) {})
			}
		},
	})
	if err != nil {
		s.lab.t.Fatal(err)
	}
	if s.gn, err = gnmi.New(gnmi.Config{Ports: s.ports, Now: now}); err != nil {
		s.lab.t.Fatal(err)
	}
}

// up starts the switch's servers.
func (s *labSwitch) up() {
	lis, connect := s.lab.listen()
	srv := grpc.NewServer(append(rpc.Options(rpc.Budget{}, nil), grpc.UnaryInterceptor(
		func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			switch r := req.(type) {
			case *p4.WriteRequest:
				s.mu.Lock()
				s.writes++
				s.entries += len(r.GetUpdates())
				fault := s.fault
				s.mu.Unlock()
				if fault != nil {
					if err := fault(r); err != nil {
						return nil, err
					}
				}
			case *p4.SetForwardingPipelineConfigRequest:
				s.mu.Lock()
				s.pushes++
				s.mu.Unlock()
			}
			return next(ctx, req)
		}), grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return next(srv, eventStream{stream, s})
	}))...)
	p4rt, telemetry := p4runtime.NewServer(&s.mu, s.core), gnmi.NewServer(&s.mu, s.gn)
	p4rt.Register(srv)
	telemetry.Register(srv)
	ctx, cancel := context.WithCancel(context.Background())
	s.lab.mu.Lock()
	s.srv, s.connect, s.stop = srv, connect, cancel
	s.lab.mu.Unlock()
	s.done.Go(func() { p4rt.Run(ctx) })
	s.done.Go(func() { telemetry.Run(ctx) })
	s.done.Go(func() { srv.Serve(lis) })
}

// eventStream takes port-event packets out of what a controller sends, as a chip does.
type eventStream struct {
	grpc.ServerStream
	s *labSwitch
}

func (e eventStream) RecvMsg(m any) error {
	for {
		if err := e.ServerStream.RecvMsg(m); err != nil {
			return err
		}
		r, _ := m.(*p4.StreamMessageRequest)
		md := r.GetPacket().GetMetadata()
		if len(md) != 1 || string(md[0].GetValue()) != "\x01\xfc" { // 508
			return nil
		}
		frame := r.GetPacket().GetPayload()
		if len(frame) != p4src.PortEventBytes || frame[12] != 0x88 || frame[13] != 0xb6 || frame[14] != 1 || binary.BigEndian.Uint32(frame[18:]) == 0 {
			e.s.lab.t.Errorf("%x is no port event", frame)
			return nil
		}
		e.s.mu.Lock()
		if e.s.portStates == nil {
			e.s.portStates = map[uint16]byte{}
		}
		e.s.portStates[binary.BigEndian.Uint16(frame[16:])] = frame[15]
		e.s.mu.Unlock()
	}
}

// down ends the servers; the tables stay.
func (s *labSwitch) down() {
	if s.srv == nil {
		return
	}
	s.srv.Stop()
	s.stop()
	s.done.Wait()
	s.lab.mu.Lock()
	s.srv, s.connect = nil, nil
	s.lab.mu.Unlock()
}

func (l *lab) close() {
	for _, s := range l.switches {
		s.down()
	}
}

func (l *lab) dial(addr string) (*grpc.ClientConn, error) { return l.dialer("")(addr) }

// hang makes a process hang and go on.
type hang struct {
	mu  sync.Mutex
	end chan struct{} // nil: it works
}

func (h *hang) set(hangs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hangs {
		h.end = make(chan struct{})
		return
	}
	close(h.end)
	h.end = nil
}

func (h *hang) wait() {
	h.mu.Lock()
	end := h.end
	h.mu.Unlock()
	if end != nil {
		<-end
	}
}

// hangingConn is a connection of a process that may hang.
type hangingConn struct {
	net.Conn
	of *hang
}

func (c *hangingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.of.wait() // what arrives is not processed
	return n, err
}

func (c *hangingConn) Write(b []byte) (int, error) {
	c.of.wait()
	return c.Conn.Write(b)
}

// dialer returns how a controller reaches switches.
func (l *lab) dialer(controller string) func(string) (*grpc.ClientConn, error) {
	connect := func(ctx context.Context, addr string) (net.Conn, error) {
		w := route{controller, addr}
		l.mu.Lock()
		dial, blocked := l.switches[addr].connect, l.blocked[w]
		l.mu.Unlock()
		if dial == nil || blocked {
			return nil, fmt.Errorf("%s cannot be reached", addr)
		}
		conn, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conns[w] = append(l.conns[w], conn)
		if hung := l.hung[controller]; hung != nil {
			conn = &hangingConn{conn, hung}
		}
		return conn, nil
	}
	return func(addr string) (*grpc.ClientConn, error) {
		return grpc.NewClient("passthrough:"+addr, append(p4rt.DialOptions(),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(connect))...)
	}
}

// block cuts a controller off a switch, or lets it back.
func (l *lab) block(w route, blocked bool) {
	l.mu.Lock()
	l.blocked[w] = blocked
	conns := l.conns[w]
	delete(l.conns, w)
	l.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

// port sets the state of one end of a link, as its switch detects it.
func (l *lab) port(e fabric.End, up bool) {
	s, ok := l.switches[l.f.Name(e.Node)]
	if !ok {
		return // a host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	number, _ := l.ports[e.Node].ID(e.Port)
	if err := s.ports.SetOper(number, up, time.Now().UnixNano()); err != nil {
		l.t.Fatal(err)
	}
}

// speed has a switch report a port's speed.
func (l *lab) speed(e fabric.End, rate fabric.Rate) {
	s := l.switches[l.f.Name(e.Node)]
	s.mu.Lock()
	defer s.mu.Unlock()
	number, _ := l.ports[e.Node].ID(e.Port)
	if err := s.ports.SetSpeed(number, fabric.SpeedName(rate), time.Now().UnixNano()); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) link(name string, up bool) fabric.LinkID {
	l.t.Helper()
	id, err := l.f.LinkByName(name)
	if err != nil {
		l.t.Fatal(err)
	}
	l.carry(id, up)
	l.port(l.f.Link(id).A, up)
	l.port(l.f.Link(id).B, up)
	return id
}

// carry has a link carry packets, or not, without a notification.
func (l *lab) carry(id fabric.LinkID, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut[id] = !up
}

// carries reports whether a link carries packets.
func (l *lab) carries(id fabric.LinkID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut[id]
}

func (l *lab) config() Config {
	pipeline, err := loadPipeline()
	if err != nil {
		l.t.Fatal(err)
	}
	c := Config{
		Core: controller.Config{
			Fabric: l.f, CarrierV4: controller.UDPSourcePort, CarrierV6: controller.FlowLabel, QuenchIntervalUs: 0, ControlPriority: 7,
		},
		Pipeline: pipeline, Targets: map[fabric.NodeID]Target{}, Own: 1, Dial: l.dial,
		Backoff: backoff.Policy{First: 100 * time.Millisecond, Most: time.Second, Factor: 2, Jitter: 0.5},
	}
	for name, s := range l.switches {
		c.Targets[s.id] = Target{P4Runtime: name, GNMI: name, DeviceID: uint64(s.id) + 1, Profile: l.profile, Ports: l.ports[s.id]}
	}
	return c
}
