package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/accept"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
)

// order is a command's request to the process that owns a fabric; three files come with Exec: standard input, output
// and error.
type order struct {
	Host   string   `json:"host,omitempty"`
	Exec   []string `json:"exec,omitempty"`
	Env    []string `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Down   bool     `json:"down,omitempty"`
	Status bool     `json:"status,omitempty"`
	deployment.Order
}

// answer is the owner's answer when an order is done.
type answer struct {
	Code   int    `json:"code"`
	Error  string `json:"error,omitempty"`
	Status Status `json:"status,omitzero"`
}

// Status is the state of the running fabric.
type Status struct {
	Dir      string   `json:"dir"` // folder with its sockets and logs
	Hosts    int      `json:"hosts"`
	Switches int      `json:"switches"`
	Lost     []string `json:"lost,omitempty"` // processes that ended unexpectedly, and how
}

const exploreSocket = "live.sock"

// Keep serves [Exec] and [Down], until a call of Down or the end of ctx.
func (x *Fabric) Keep(ctx context.Context) error {
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: x.path(exploreSocket), Net: "unix"})
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { lis.Close() }) //nolint:errcheck // Accept sees it
	defer stop()
	for {
		c, err := lis.AcceptUnix()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("live: %w", err)
		}
		go func() {
			defer c.Close() //nolint:errcheck // all is said
			if err := checkSameUser(c); err != nil {
				json.NewEncoder(c).Encode(answer{Error: err.Error()}) //nolint:errcheck // who asked is gone
				return
			}
			a, down := x.serveOrder(ctx, c)
			json.NewEncoder(c).Encode(a) //nolint:errcheck // who asked is gone
			if down {
				cancel()
			}
		}()
	}
}

// checkSameUser returns an error if the other end of a connection is another user's process.
func checkSameUser(c *net.UnixConn) error {
	if peer := accept.PeerOf(c); !peer.Known || int(peer.UID) != os.Geteuid() {
		return fmt.Errorf("live: a process of user %d is at the other end of the fabric's socket; only user %d's may be", peer.UID, os.Geteuid())
	}
	return nil
}

// status returns the state of the fabric.
func (x *Fabric) status() Status {
	s := Status{Dir: x.dir, Hosts: x.f.Hosts(), Switches: x.f.Switches()}
	for _, err := range x.Lost() {
		s.Lost = append(s.Lost, err.Error())
	}
	return s
}

func (x *Fabric) serveOrder(ctx context.Context, c *net.UnixConn) (a answer, down bool) {
	text, oob := make([]byte, 256<<10), make([]byte, unix.CmsgSpace(3*4))
	n, m, _, _, err := c.ReadMsgUnix(text, oob)
	var o order
	if err == nil {
		err = json.Unmarshal(text[:n], &o)
	}
	if err != nil {
		return answer{Error: err.Error()}, false
	}
	if o.Down {
		return answer{}, true
	}
	if o.Status {
		return answer{Status: x.status()}, false
	}
	if o.Do != "" {
		if err := x.do(ctx, o.Order); err != nil {
			return answer{Error: err.Error()}, false
		}
		return answer{}, false
	}
	files, err := received(oob[:m])
	for _, f := range files {
		defer f.Close() //nolint:errcheck // the command has them
	}
	if err != nil || len(files) != 3 || len(o.Exec) == 0 {
		return answer{Error: fmt.Sprintf("a command and three files are needed: %v", err)}, false
	}
	id, err := x.f.NodeByName(o.Host)
	if err != nil {
		return answer{Error: err.Error()}, false
	}
	cmd := exec.Command(o.Exec[0], o.Exec[1:]...)
	cmd.Env, cmd.Dir = o.Env, o.Dir
	if x.host(id) != nil {
		cmd.Env = append(cmd.Env, verbsEnv()...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := x.thread.in(x.space(id).ns, cmd.Start); err != nil {
		return answer{Code: 127, Error: err.Error()}, false
	}
	ended := make(chan struct{})
	go passSignals(c, cmd.Process, ended)
	err = cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return answer{Code: 1, Error: err.Error()}, false
	}
	return answer{Code: cmd.ProcessState.ExitCode()}, false
}

// commandGrace is how long a command may continue after its client has ended.
const commandGrace = 5 * time.Second

// passSignals passes signals on to a command, each a byte from the client. When that
// one is gone nobody waits for the command: it is ended.
func passSignals(c *net.UnixConn, p *os.Process, ended <-chan struct{}) {
	for {
		var b [1]byte
		if n, err := c.Read(b[:]); n == 1 && err == nil {
			p.Signal(syscall.Signal(b[0])) //nolint:errcheck // it has just ended
			continue
		}
		p.Signal(syscall.SIGTERM) //nolint:errcheck // as above
		select {
		case <-ended:
		case <-time.After(commandGrace):
			p.Kill() //nolint:errcheck // as above
		}
		return
	}
}

// verbsLibrary names the library that gives programs a host's RDMA device. It lies
// beside this program, where its package has it, or where the variable says.
const (
	verbsLibrary         = "libethereal-verbs.so"
	verbsLibraryVariable = "ETHEREAL_VERBS_LIBRARY"
)

// VerbsLibrary returns the path of the library that gives programs an RDMA device; "" if it was not built.
func VerbsLibrary() string {
	lib := os.Getenv(verbsLibraryVariable)
	if exe, err := os.Executable(); err == nil && lib == "" {
		lib = filepath.Join(filepath.Dir(exe), verbsLibrary)
		if _, err := os.Stat(lib); err != nil {
			lib = filepath.Join(filepath.Dir(exe), "../lib/ethereal", verbsLibrary)
		}
	}
	if _, err := os.Stat(lib); err != nil {
		return ""
	}
	return lib
}

// verbsEnv is the environment variables with which programs of a host find its RDMA device.
func verbsEnv() []string {
	lib := VerbsLibrary()
	if lib == "" {
		return nil
	}
	env := []string{"ETHEREAL_NIC=" + verbsSocket, "LD_PRELOAD=" + lib}
	if given := os.Getenv("LD_PRELOAD"); given != "" {
		env[1] += " " + given
	}
	return env
}

// received returns the files in a control message.
func received(oob []byte) ([]*os.File, error) {
	ms, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&ms[0])
	var files []*os.File
	for _, fd := range fds {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "passed"))
	}
	return files, err
}

// deployment says how the fabric is reached from outside of its namespaces.
func (x *Fabric) deployment() *deployment.File {
	d := &deployment.File{
		Fabric: x.path("fabric.yaml"), Targets: x.path("targets.yaml"), Admin: "unix:" + x.path("admin.sock"),
		Token: x.path("token"), EventLog: x.EventLog(), Control: x.path(exploreSocket),
	}
	for h := range x.f.Hosts() {
		d.Hosts = append(d.Hosts, x.Socket(fabric.NodeID(h)))
	}
	return d
}

// Deployment returns the file that says how to reach the running fabric.
func Deployment() (*deployment.File, error) {
	socket, err := findRunning()
	if err != nil {
		return nil, err
	}
	return deployment.Load(filepath.Join(filepath.Dir(socket), deployment.FileName))
}

// Up starts a fabric with addresses, hosts and a controller, calls ready, and keeps it running until [Down] or ctx's
// end. It calls base.Lost for processes that end before.
func Up(ctx context.Context, f *fabric.Fabric, base Base, payload int, ready func()) error {
	if up, _ := fabricsUp(); len(up) > 0 {
		return fmt.Errorf("live: a fabric is up already, in %s; take it down with ethereal live down, or use another TMPDIR", filepath.Dir(up[0]))
	}
	notifiers := Notifiers{Quench: true, GNMI: true}
	b, err := NewBench(ctx, Config{Base: base, Fabric: f, Payload: payload, Addresses: true}, notifiers)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Fabric.deployment().Write(b.Fabric.path(deployment.FileName)); err != nil {
		return err
	}
	ready()
	return b.Fabric.Keep(ctx)
}
