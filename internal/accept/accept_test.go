package accept

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// starved is a listener that cannot accept for a while, as when a process has no file descriptors left.
type starved struct {
	net.Listener
	fails int
}

func (s *starved) Accept() (net.Conn, error) {
	if s.fails > 0 {
		s.fails--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	lis, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	return lis
}

func dial(t *testing.T, lis net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() }) //nolint:errcheck // it may be closed
	return c
}

// served runs Serve until the test ends, with a service that answers each byte.
func served(t *testing.T, lis net.Listener, o Options) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, lis, o, func(_ context.Context, c net.Conn) {
			var b [1]byte
			for {
				if _, err := c.Read(b[:]); err != nil || ClearDeadline(c) != nil {
					return
				}
				c.Write(b[:]) //nolint:errcheck // the reader of it says so
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v, want that its context ended", err)
		}
	})
}

// answers reports whether a connection is served: refused ones are closed.
func answers(c net.Conn) bool {
	var b [1]byte
	if _, err := c.Write([]byte{7}); err != nil {
		return false
	}
	_, err := io.ReadFull(c, b[:])
	return err == nil && b[0] == 7
}

func TestServeOutlivesLackOfDescriptors(t *testing.T) {
	lis := listen(t)
	served(t, &starved{lis, 3}, Options{Log: slog.New(slog.DiscardHandler)})
	if !answers(dial(t, lis)) {
		t.Error("no answer after Accept failed for want of descriptors")
	}
}

func TestServeBounds(t *testing.T) {
	for name, o := range map[string]Options{
		"in all":      {Most: 3, PerUser: -1, PerPID: -1},
		"per user":    {Most: 99, PerUser: 3, PerPID: -1},
		"per process": {Most: 99, PerUser: -1, PerPID: 3},
	} {
		t.Run(name, func(t *testing.T) {
			lis := listen(t)
			served(t, lis, o)
			var open []net.Conn
			for i := range 3 {
				c := dial(t, lis)
				if !answers(c) {
					t.Fatalf("connection %d of 3 was refused", i)
				}
				open = append(open, c)
			}
			if answers(dial(t, lis)) {
				t.Fatal("a fourth connection was served")
			}
			open[0].Close()              //nolint:errcheck // the server sees it
			for !answers(dial(t, lis)) { // until the server has seen it
				if t.Context().Err() != nil {
					t.Fatal("refused though another has ended")
				}
			}
		})
	}
}

// pipeListener hands out one end of a pipe: it works in fake time.
type pipeListener struct{ conns chan net.Conn }

func (p *pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-p.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p *pipeListener) Close() error   { close(p.conns); return nil }
func (p *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func TestSilentConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lis := &pipeListener{make(chan net.Conn)}
		served(t, lis, Options{})
		silent, end := net.Pipe()
		lis.conns <- end
		talks, end := net.Pipe()
		lis.conns <- end
		if !answers(talks) {
			t.Fatal("no answer")
		}
		began := time.Now()
		if _, err := silent.Read(make([]byte, 1)); err == nil {
			t.Error("a silent connection was answered")
		}
		if took := time.Since(began); took != DefaultSilence {
			t.Errorf("a silent connection was closed after %v, want %v", took, DefaultSilence)
		}
		if !answers(talks) {
			t.Error("a connection that had sent a message was closed for being silent later")
		}
	})
}

// TestStranger: an abstract socket has no permissions, so that other users are refused there, and only there.
func TestStranger(t *testing.T) {
	lis, err := net.Listen("unix", "@"+filepath.Base(t.TempDir())+t.Name())
	if err != nil {
		t.Skipf("no abstract sockets here: %v", err)
	}
	defer lis.Close() //nolint:errcheck // nobody connects
	me := uint32(os.Geteuid())
	for _, c := range []struct {
		lis     net.Listener
		peer    Peer
		refused bool
	}{
		{lis, Peer{UID: me, Known: true}, false},
		{lis, Peer{UID: 0, Known: true}, false},
		{lis, Peer{UID: me + 1, Known: true}, true},
		{lis, Peer{}, true},
		{listen(t), Peer{UID: me + 1, Known: true}, false},
	} {
		if why := refuseStranger(c.lis, c.peer); (why != "") != c.refused {
			t.Errorf("%s, %+v: %q", c.lis.Addr(), c.peer, why)
		}
	}
}
