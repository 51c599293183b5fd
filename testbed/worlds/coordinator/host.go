package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"

	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// Host is a coordinator's connection to one host. Its methods are safe for concurrent use.
type Host struct {
	path string
	conn net.Conn

	mu      sync.Mutex
	enc     *json.Encoder
	seq     uint64
	waiting map[uint64]chan hostproto.Reply
	err     error         // why the connection ended
	ended   chan struct{} // closed then
}

// maxLine bounds a line from a host, in bytes.
const maxLine = 16 << 20

// Dial connects to the control socket at path of a host. each is called with the host's events, one at a time, until
// Close.
func Dial(ctx context.Context, path string, each func(hostproto.Event)) (*Host, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	h := &Host{path: path, conn: conn, enc: json.NewEncoder(conn), waiting: map[uint64]chan hostproto.Reply{}, ended: make(chan struct{})}
	go h.read(each)
	return h, nil
}

func (h *Host) read(each func(hostproto.Event)) {
	lines := bufio.NewScanner(h.conn)
	lines.Buffer(nil, maxLine)
	err := error(nil)
	for err == nil && lines.Scan() {
		var r hostproto.Reply
		if err = json.Unmarshal(lines.Bytes(), &r); err != nil {
			break
		}
		if r.Event != nil {
			each(*r.Event)
			continue
		}
		h.mu.Lock()
		c := h.waiting[r.Seq]
		delete(h.waiting, r.Seq)
		h.mu.Unlock()
		if c != nil {
			c <- r
		}
	}
	if err == nil {
		err = lines.Err()
	}
	if err == nil {
		err = net.ErrClosed
	}
	h.mu.Lock()
	h.err = fmt.Errorf("coordinator: %s: %w", h.path, err)
	h.mu.Unlock()
	close(h.ended)
}

// Ask sends a request and waits for the answer.
func (h *Host) Ask(ctx context.Context, q hostproto.Request) (hostproto.Reply, error) {
	c := make(chan hostproto.Reply, 1)
	h.mu.Lock()
	h.seq++
	q.Seq = h.seq
	h.waiting[q.Seq] = c
	err := h.enc.Encode(&q)
	h.mu.Unlock()
	if err != nil {
		return hostproto.Reply{}, fmt.Errorf("coordinator: %s: %w", h.path, err)
	}
	var r hostproto.Reply
	select {
	case r = <-c:
	case <-h.ended:
		select {
		case r = <-c: // the host answered before it ended
		default:
			h.mu.Lock()
			defer h.mu.Unlock()
			return r, h.err
		}
	case <-ctx.Done():
		return r, ctx.Err()
	}
	if r.Error != "" {
		return r, fmt.Errorf("coordinator: %s: %s", h.path, r.Error)
	}
	return r, nil
}

// Ended is closed when the connection has ended.
func (h *Host) Ended() <-chan struct{} { return h.ended }

// Close ends the connection and waits for its goroutine.
func (h *Host) Close() error {
	err := h.conn.Close()
	<-h.ended
	return err
}
