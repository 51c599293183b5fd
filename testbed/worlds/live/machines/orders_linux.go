package machines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/printable"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	placement "github.com/ethereal-fabric/ethereal/testbed/machines"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// Between the first machine and the others goes HTTP/2 over the standard input and output of what the remote shell starts:
// one connection for many streams, which pings and so notices when a machine is gone.

// pingEvery and pingLimit are how long a connection is silent before it is tried, and how long an answer may take. A busy
// machine is not a lost one.
const (
	pingEvery = 5 * time.Second
	pingLimit = 15 * time.Second
)

// pipe is a connection made of two files.
type pipe struct {
	io.Reader
	io.Writer
	once  sync.Once
	close func() error
}

func (p *pipe) Close() (err error) {
	p.once.Do(func() { err = p.close() })
	return err
}

// A pipe's ends have no addresses and no deadlines: pings limit how long one waits.
func (*pipe) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
func (*pipe) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
func (*pipe) SetDeadline(time.Time) error      { return nil }
func (*pipe) SetReadDeadline(time.Time) error  { return nil }
func (*pipe) SetWriteDeadline(time.Time) error { return nil }

// oneListener has one connection, and ends with it.
type oneListener struct {
	conn chan net.Conn
	end  chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.end:
		return nil, io.EOF
	}
}
func (*oneListener) Close() error   { return nil }
func (*oneListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func http2Only() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// serveOrders serves a part's orders until the connection ends.
func serveOrders(ctx context.Context, x *live.Fabric, place *placement.Placement, log *slog.Logger, in, out *os.File) error {
	mux := http.NewServeMux()
	var one sync.Mutex // one order at a time
	mux.HandleFunc("POST /do", func(w http.ResponseWriter, r *http.Request) {
		var order deployment.Order
		err := json.NewDecoder(io.LimitReader(r.Body, 1<<16)).Decode(&order)
		if err == nil {
			one.Lock()
			err = x.Do(r.Context(), order)
			one.Unlock()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("GET /cables", func(w http.ResponseWriter, r *http.Request) {
		flush(w)
		enc := json.NewEncoder(w)
		err := x.WatchCables(r.Context(), placement.Crossing(place.Fabric, place.At), func(c live.Cable) error {
			err := enc.Encode(c)
			flush(w)
			return err
		})
		if err != nil && r.Context().Err() == nil {
			log.Error("links between machines", "err", err)
		}
	})
	mux.HandleFunc("GET /lost", func(w http.ResponseWriter, _ *http.Request) {
		lost := []string{}
		for _, err := range x.Lost() {
			lost = append(lost, err.Error())
		}
		json.NewEncoder(w).Encode(lost) //nolint:errcheck // who asked is gone
	})
	mux.HandleFunc("POST /host/{name}", func(w http.ResponseWriter, r *http.Request) {
		id, err := place.Fabric.NodeByName(r.PathValue("name"))
		if err != nil || !x.HasHost(id) {
			http.Error(w, "no such host", http.StatusNotFound)
			return
		}
		c, err := net.Dial("unix", x.Socket(id))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		flush(w)
		pass(c, &pipe{Reader: r.Body, Writer: flusher{w}, close: r.Body.Close})
	})
	ended := make(chan struct{})
	conn := &pipe{Reader: in, Writer: out, close: func() error {
		close(ended)
		return errors.Join(in.Close(), out.Close())
	}}
	lis := &oneListener{conn: make(chan net.Conn, 1), end: ended}
	lis.conn <- conn
	server := &http.Server{ //nolint:gosec // the one who asks has started this process
		Handler: mux, Protocols: http2Only(), HTTP2: &http.HTTP2Config{SendPingTimeout: pingEvery, PingTimeout: pingLimit, MaxConcurrentStreams: 1 << 14},
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // Serve sees it
	if err := server.Serve(lis); !errors.Is(err, io.EOF) {
		return fmt.Errorf("live: %w", err)
	}
	return errDown
}

// flush sends what was written.
func flush(w http.ResponseWriter) { http.NewResponseController(w).Flush() } //nolint:errcheck // the next write sees it

// flusher sends what is written at once.
type flusher struct{ http.ResponseWriter }

func (f flusher) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	flush(f.ResponseWriter)
	return n, err
}

// remote is a part on a machine, seen from the first one.
type remote struct {
	name  string // of the machine
	cmd   *exec.Cmd
	http  *http.Client
	conn  *pipe
	log   io.Closer     // of what it writes to its standard error
	lost  chan struct{} // closed when the connection has ended
	cause error         // why, then
	ended chan struct{} // closed when what was started here for it has ended, too
}

// newRemote speaks to a part whose standard input and output these are.
func newRemote(name string, cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser) *remote {
	conn := make(chan net.Conn, 1)
	p := &pipe{Reader: out, Writer: in, close: func() error { return errors.Join(in.Close(), out.Close()) }}
	conn <- p
	t := &http.Transport{
		Protocols: http2Only(), HTTP2: &http.HTTP2Config{SendPingTimeout: pingEvery, PingTimeout: pingLimit},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-conn:
				return c, nil
			default:
				return nil, fmt.Errorf("the connection to %s has ended", name)
			}
		},
	}
	return &remote{name: name, cmd: cmd, http: &http.Client{Transport: t}, conn: p, lost: make(chan struct{}), ended: make(chan struct{})}
}

// close ends the connection, at which the part ends.
func (r *remote) close() { r.conn.Close() } //nolint:errcheck // nothing is left to say

// endTime is how long a part may take to end, and lastWords how long what it says then is waited for.
const (
	endTime   = 10 * time.Second
	lastWords = time.Second
)

// hangUp ends the connection, and then what was started here for it. It returns when that has ended, or soon.
func (r *remote) hangUp() {
	r.close()
	go func() {
		t := time.AfterFunc(endTime, func() { r.cmd.Process.Kill() }) //nolint:errcheck // it has ended
		defer t.Stop()
		r.cmd.Wait()  //nolint:errcheck // however it ended
		r.log.Close() //nolint:errcheck // it is not synced
		close(r.ended)
	}()
	select {
	case <-r.ended:
	case <-time.After(lastWords): // a remote shell whose other end does not answer goes on
	}
}

// call asks for something whose answer is a stream. The caller closes it.
func (r *remote) call(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	q, err := http.NewRequestWithContext(ctx, method, "http://part"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := r.http.Do(q)
	if err != nil {
		return nil, fmt.Errorf("live: machine %s: %w", r.name, err)
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
		resp.Body.Close() //nolint:errcheck // it was read
		return nil, fmt.Errorf("live: machine %s: %s", r.name, printable.Text(string(text)))
	}
	return resp.Body, nil
}

// do has the part do something.
func (r *remote) do(ctx context.Context, w deployment.Order) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	body, err := r.call(ctx, http.MethodPost, "/do", bytes.NewReader(text))
	if err == nil {
		body.Close() //nolint:errcheck // it is empty
	}
	return err
}

// statusLimit is how long a part may take to say how its processes are, and maxLost how many bytes that may have.
const (
	statusLimit = 5 * time.Second
	maxLost     = 1 << 20
)

// processesLost returns what the part says of its processes that ended though they were not to.
func (r *remote) processesLost(ctx context.Context) (lost []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusLimit)
	defer cancel()
	body, err := r.call(ctx, http.MethodGet, "/lost", nil)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // it was read
	return lost, json.NewDecoder(io.LimitReader(body, maxLost)).Decode(&lost)
}

// follow hands on news of the part's ends of links until it is lost. ready is called when the part serves.
func (r *remote) follow(ctx context.Context, ready func(), notify func(live.Cable)) error {
	body, err := r.call(ctx, http.MethodGet, "/cables", nil)
	if err != nil {
		return err
	}
	defer body.Close() //nolint:errcheck // it has ended
	ready()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		var c live.Cable
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("live: machine %s: %w", r.name, err)
		}
		notify(c)
	}
	return lines.Err()
}

// host passes a connection on to a host's control socket there.
func (r *remote) host(ctx context.Context, name string, c net.Conn) error {
	from, to := io.Pipe()
	body, err := r.call(ctx, http.MethodPost, "/host/"+name, from)
	if err != nil {
		return errors.Join(err, to.Close())
	}
	pass(c, &pipe{Reader: body, Writer: to, close: func() error { return errors.Join(to.Close(), body.Close()) }})
	return nil
}
