package machines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	placement "github.com/ethereal-fabric/ethereal/testbed/machines"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// Machine is one that has a part of a fabric.
type Machine struct {
	Name    string     // by which the remote shell knows it
	Address netip.Addr // by which the other machines reach it
}

// Config is a fabric on several machines, of which the first is this one.
type Config struct {
	Fabric    *fabric.Fabric
	Machines  []Machine
	Dir       string   // of its files and sockets here; made if it is not there
	Payload   int      // bytes of a full packet, at most
	Datapath  string   // Interpreter or Kernel
	Build     string   // of this program
	Shell     []string // what carries out a command on another machine: the words before its name
	Program   []string // how this program is called there
	LabCA     string   // scripts/lab-ca
	VXLANPort int
	View      string    // where the controller serves the fabric's page, a loopback address; empty: nowhere
	Log       io.Writer // what people are to know
}

// spread is such a fabric while it is up.
type spread struct {
	cfg    Config
	place  *placement.Placement
	thread *live.Thread
	files  *certs.Files // the controller's
	page   *live.Page   // nil: none

	parts []*remote
	down  chan struct{} // somebody asked for the end

	mu         sync.Mutex    // of what follows, and of the places of parts
	controller *live.Process // nil: it was ended
	closing    bool
	dark       map[cableEnd]bool // ends of links between machines that are down
	rejoining  bool
}

// cableEnd is a link's end on a machine.
type cableEnd struct {
	link    fabric.LinkID
	machine int
}

// Files in the folder of a fabric on several machines.
const (
	ControlSocket = "control.sock"
)

// UpOn builds a fabric on several machines, calls ready, and keeps it until somebody asks for the end, ctx ends, or the
// first machine's part does. The loss of another machine is reported; the rest goes on.
func UpOn(ctx context.Context, cfg Config, ready func()) (err error) {
	s := &spread{cfg: cfg, down: make(chan struct{}, 1), dark: map[cableEnd]bool{}}
	var addresses []netip.Addr
	for _, m := range cfg.Machines {
		addresses = append(addresses, m.Address)
	}
	if s.place, err = placement.Place(cfg.Fabric, addresses); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return err
	}
	lock, free, err := live.LockFolder(cfg.Dir)
	if err != nil {
		return err
	}
	if !free {
		return fmt.Errorf("live: %s is the folder of a fabric that is up; take it down with ethereal live down --dir, or name another --dir", cfg.Dir)
	}
	defer lock.Close() //nolint:errcheck // only locked
	if err := s.writeFiles(ctx); err != nil {
		return err
	}
	if cfg.View != "" {
		if s.page, err = live.NewPage(cfg.View, cfg.Dir); err != nil {
			return fmt.Errorf("--listen-view: %w", err)
		}
		defer s.page.Close() //nolint:errcheck // the controller has its own
		s.say("the fabric's page, once its controller runs: %s", s.page.URL)
	}
	if s.thread, err = live.NewThread(); err != nil {
		return err
	}
	defer s.thread.Close()
	defer s.close()
	if err := s.startParts(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	defer func() { cancel(); err = errors.Join(err, g.Wait()) }()
	for h := range cfg.Fabric.Hosts() {
		id := fabric.NodeID(h)
		err := s.listen(ctx, g, cfg.Fabric.Name(id)+".sock", func(c net.Conn) { s.passHost(ctx, id, c) })
		if err != nil {
			return err
		}
	}
	if err := s.startController(ctx, live.ControllerStatus.Done); err != nil {
		return err
	}
	if err := s.listen(ctx, g, ControlSocket, func(c net.Conn) { s.serveOrder(ctx, c) }); err != nil {
		return err
	}
	ready()
	select {
	case <-ctx.Done():
	case <-s.down:
	case <-s.parts[0].lost:
		return fmt.Errorf("live: this machine's part has ended: %w", s.parts[0].cause)
	}
	return nil
}

func (s *spread) path(name string) string { return filepath.Join(s.cfg.Dir, name) }

// writeFiles writes what the controller, people and ethereal run read, and has the certificates made.
func (s *spread) writeFiles(ctx context.Context) error {
	f := s.cfg.Fabric
	spec, err := yaml.Marshal(f.Spec())
	if err != nil {
		return err
	}
	d := deployment.File{
		Fabric: "fabric.yaml", Targets: "targets.yaml", Admin: s.place.Controller(placement.AdminPort), Token: "token",
		EventLog: "controller.jsonl", Control: ControlSocket,
		CA: "certs/ca.pem", Cert: "certs/controller.pem", Key: "certs/controller.key",
	}
	for h := range f.Hosts() {
		d.Hosts = append(d.Hosts, f.Name(fabric.NodeID(h))+".sock")
	}
	err = errors.Join(os.WriteFile(s.path("fabric.yaml"), spec, 0o600), d.Write(s.path(deployment.FileName)),
		os.WriteFile(s.path("token"), []byte(live.AdminToken+"\n"), 0o600),
		live.WriteTargets(s.path("targets.yaml"), s.place.Targets(), live.Notifiers{Quench: true, GNMI: true}, s.cfg.Payload))
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, s.cfg.LabCA, append([]string{s.path("certs")}, s.place.Holders()...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("live: certificates: %s: %w; --lab-ca names scripts/lab-ca, which takes openssl\n%s", s.cfg.LabCA, err, out)
	}
	s.files, err = certs.Read(s.path("certs/ca.pem"), s.path("certs/controller.pem"), s.path("certs/controller.key"))
	return err
}

// plan returns a machine's plan.
func (s *spread) plan(machine int) (*plan, error) {
	p := &plan{
		Build: s.cfg.Build, Spec: s.cfg.Fabric.Spec(), Addresses: s.place.Addresses, Machine: machine, Payload: s.cfg.Payload,
		Datapath: s.cfg.Datapath, VXLANPort: s.cfg.VXLANPort, Files: map[string][]byte{},
	}
	names := []string{"ca.pem"}
	for _, name := range s.nodes(machine) {
		names = append(names, name+".pem", name+".key")
	}
	for _, name := range names {
		text, err := os.ReadFile(s.path(filepath.Join("certs", name)))
		if err != nil {
			return nil, err
		}
		p.Files[name] = text
	}
	return p, nil
}

// nodes returns the names of what a machine has.
func (s *spread) nodes(machine int) (names []string) {
	for i, at := range s.place.At {
		if at == machine {
			names = append(names, s.cfg.Fabric.Name(fabric.NodeID(i)))
		}
	}
	return names
}

// startParts starts all parts and waits until they serve.
func (s *spread) startParts(ctx context.Context) error {
	waiting := make(chan int, len(s.cfg.Machines))
	var plans []*plan
	for m := range s.cfg.Machines {
		p, err := s.plan(m)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	var failed error
	for m := range s.cfg.Machines {
		r, err := s.startPart(m)
		if failed = err; err != nil {
			break
		}
		s.parts = append(s.parts, r)
	}
	for m, r := range s.parts {
		go s.follow(m, r, plans[m], func() { waiting <- m })
	}
	if failed != nil {
		return failed
	}
	lost := make(chan *remote, len(s.parts))
	for _, r := range s.parts {
		go func() {
			select {
			case <-r.lost:
				lost <- r
			case <-ctx.Done():
			}
		}()
	}
	limit := time.NewTimer(2 * live.StartLimit)
	defer limit.Stop()
	for range s.parts {
		select {
		case <-waiting:
		case r := <-lost:
			return fmt.Errorf("live: machine %s: its part did not start: %w", r.name, r.cause)
		case <-limit.C:
			return fmt.Errorf("live: not all machines serve within %v; their logs are in %s", 2*live.StartLimit, s.cfg.Dir)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// PartCommand are the words after the program's name that have it be a part.
func PartCommand() []string { return []string{"live", "part"} }

// startPart starts what is to be a machine's part: here, or by the remote shell.
func (s *spread) startPart(m int) (*remote, error) {
	at := s.cfg.Machines[m]
	words := append(slices.Clone(s.cfg.Shell), at.Name)
	words = append(append(words, s.cfg.Program...), PartCommand()...)
	if m == 0 {
		exe, err := os.Executable()
		if err != nil {
			return nil, err
		}
		words = append([]string{exe}, PartCommand()...)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(s.partLog(m))
	if err != nil {
		return nil, err
	}
	// What it started may have its standard error for longer than it lives.
	cmd.Stderr, cmd.WaitDelay = &cappedLog{to: log, left: maxPartLog}, lastWords
	if err := s.thread.Do(cmd.Start); err != nil {
		return nil, errors.Join(fmt.Errorf("live: machine %s: %w", at.Name, err), log.Close())
	}
	r := newRemote(at.Name, cmd, in, out)
	r.log = log
	return r, nil
}

// maxPartLog bounds what is kept of what a machine writes to its standard error, in bytes.
const maxPartLog = 16 << 20

// cappedLog writes to a file, up to a number of bytes, and takes what comes after: a machine does not fill this one's disk.
type cappedLog struct {
	to   io.Writer
	left int
}

// Write implements io.Writer.
func (l *cappedLog) Write(b []byte) (int, error) {
	if n := min(len(b), l.left); n > 0 {
		l.left -= n
		l.to.Write(b[:n]) //nolint:errcheck // a full disk ends the log, not the machine
	}
	return len(b), nil
}

func (s *spread) partLog(m int) string { return s.path(fmt.Sprintf("machine-%d.log", m)) }

// follow sends a machine its part, and follows it until it is lost.
func (s *spread) follow(m int, r *remote, p *plan, ready func()) {
	err := writePlan(r.conn, p)
	if err == nil {
		err = r.follow(context.Background(), ready, func(c live.Cable) { s.carrier(m, c) })
	}
	r.hangUp()
	r.cause = errors.New("the connection to it has ended")
	if err != nil {
		r.cause = err
	}
	r.cause = fmt.Errorf("%w%s", r.cause, live.Tail(s.partLog(m)))
	close(r.lost)
	s.lost(m, r.cause)
}

// carrier gives the other end of a link the carrier that it has of this one. What a machine says of links that are not its
// own, or that lead to no other machine, is nothing.
func (s *spread) carrier(from int, c live.Cable) {
	if int(c.Link) < 0 || int(c.Link) >= s.cfg.Fabric.Links() {
		return
	}
	l := s.cfg.Fabric.Link(c.Link)
	a, b := s.place.At[l.A.Node], s.place.At[l.B.Node]
	if a == b || a != from && b != from {
		return
	}
	other := a + b - from
	s.mu.Lock()
	s.dark[cableEnd{c.Link, from}] = !c.Up
	s.mu.Unlock()
	s.setCarrier(other, c)
}

// setCarrier gives a machine's end of a link a carrier, or none.
func (s *spread) setCarrier(machine int, c live.Cable) {
	if !s.isUp(machine) {
		return
	}
	do := "carrier-down"
	if c.Up {
		do = "carrier-up"
	}
	ctx, cancel := context.WithTimeout(context.Background(), live.StartLimit)
	defer cancel()
	if err := s.part(machine).do(ctx, deployment.Order{Do: do, Name: s.cfg.Fabric.LinkName(c.Link)}); err != nil {
		s.say("carrier of %s: %v", s.cfg.Fabric.LinkName(c.Link), err)
	}
}

// part returns a machine's part, which may be lost.
func (s *spread) part(m int) *remote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[m]
}

func (s *spread) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		fmt.Fprintf(s.cfg.Log, format+"\n", args...)
	}
}

// lost reports what a machine took along, and takes the carrier from all links to it.
func (s *spread) lost(m int, cause error) {
	s.say("machine %s is lost, and with it %s: %v", s.cfg.Machines[m].Name, strings.Join(s.nodes(m), ", "), cause)
	for _, id := range placement.Crossing(s.cfg.Fabric, s.place.At) {
		l := s.cfg.Fabric.Link(id)
		a, b := s.place.At[l.A.Node], s.place.At[l.B.Node]
		if a == m || b == m {
			s.carrier(m, live.Cable{Link: id, Up: false})
		}
	}
}

func (s *spread) isUp(m int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || m >= len(s.parts) { // not all were started
		return false
	}
	select {
	case <-s.parts[m].lost:
		return false
	default:
		return true
	}
}

// listen serves connections to a socket of the folder.
func (s *spread) listen(ctx context.Context, g *errgroup.Group, name string, serve func(net.Conn)) error {
	path := s.path(name)
	os.Remove(path) //nolint:errcheck // of a fabric that was killed, if at all
	lis, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("live: %w; a socket's path is at most 107 bytes long: name a shorter --dir", err)
	}
	serveAll(ctx, g, lis, nil, serve)
	return nil
}

// passHost passes a connection on to a host's control socket on its machine.
func (s *spread) passHost(ctx context.Context, id fabric.NodeID, c net.Conn) {
	if !s.isUp(s.place.At[id]) {
		return
	}
	if err := s.part(s.place.At[id]).host(ctx, s.cfg.Fabric.Name(id), c); err != nil && ctx.Err() == nil {
		s.say("%s: %v", s.cfg.Fabric.Name(id), err)
	}
}

// startController starts the controller, in this machine's own network namespace, and waits until it says what is wanted.
func (s *spread) startController(ctx context.Context, wanted func(live.ControllerStatus) bool) error {
	args := []string{
		"controller", "--fabric", s.path("fabric.yaml"), "--targets", s.path("targets.yaml"), "--listen-agents", s.place.Controller(placement.AgentsPort),
		"--listen-admin", s.place.Controller(placement.AdminPort), "--admin-token-file", s.path("token"), "--event-log", s.path("controller.jsonl"),
		"--tls-ca", s.path("certs/ca.pem"), "--tls-cert", s.path("certs/controller.pem"), "--tls-key", s.path("certs/controller.key"),
	}
	p, err := s.thread.StartController(s.cfg.Dir, args, s.page, nil)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.controller = p
	s.mu.Unlock()
	return s.settled(ctx, wanted)
}

// settled waits until the controller says what is wanted.
func (s *spread) settled(ctx context.Context, wanted func(live.ControllerStatus) bool) error {
	s.mu.Lock()
	p := s.controller
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	return live.WaitFor(ctx, live.StartLimit, "the controller has all switches in hand", func() (bool, error) {
		if err := p.Ended(); err != nil {
			return true, err
		}
		for m := range s.parts { // its switches will not be in hand
			if !s.isUp(m) {
				return true, fmt.Errorf("live: machine %s is lost", s.cfg.Machines[m].Name)
			}
		}
		now, err := live.AskController(ctx, s.place.Controller(placement.AdminPort), s.files.ClientConfig("controller"))
		if err == nil && !wanted(now) {
			err = fmt.Errorf("%+v", now)
		}
		return err == nil, err
	})
}
