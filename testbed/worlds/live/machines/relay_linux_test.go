package machines

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// called is a connection from an address.
type called struct {
	net.Conn
	from net.IP
}

func (c called) RemoteAddr() net.Addr { return &net.TCPAddr{IP: c.from, Port: 1} }

// TestRelayed: who says nothing is cut off after a while and has not reached the node; one address does not take the
// room of others, nor all together that of more; what ends makes room; and what is said arrives, from its first byte,
// both ways.
func TestRelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		reached := make(chan net.Conn, relayedMost)
		to := func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			reached <- theirs
			return ours, nil
		}
		r := &relayed{name: "tor0", log: slog.New(slog.NewTextHandler(&log, nil)), to: to}
		call := func(last byte) (c net.Conn, over chan struct{}) {
			c, other := net.Pipe()
			over = make(chan struct{})
			go func() {
				defer close(over)
				defer other.Close()
				r.serve(t.Context(), called{other, net.IPv4(192, 0, 2, last)})
			}()
			synctest.Wait()
			return c, over
		}
		refused := func(over chan struct{}) bool {
			select {
			case <-over:
				return true
			default:
				return false
			}
		}
		var held []chan struct{}
		for range relayedFrom {
			_, over := call(1)
			held = append(held, over)
		}
		if _, over := call(1); !refused(over) || !strings.Contains(log.String(), "node=tor0 from=192.0.2.1") {
			t.Errorf("%d connections of one address, and one more is taken: %s", relayedFrom, &log)
		}
		for range relayedMost - relayedFrom {
			_, over := call(2)
			held = append(held, over)
		}
		said := log.Len()
		if _, over := call(3); !refused(over) || log.Len() != said {
			t.Errorf("%d connections, and one more is taken, or logged at once: %s", relayedMost, &log)
		}
		time.Sleep(firstBytes - time.Second)
		for _, over := range held {
			if refused(over) {
				t.Fatal("a connection ended early")
			}
		}
		time.Sleep(time.Second)
		for _, over := range held {
			<-over
		}
		if len(reached) != 0 || r.all != 0 || len(r.open) != 0 {
			t.Errorf("%d reached the node, %d are open, %v", len(reached), r.all, r.open)
		}

		c, over := call(1)
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		node := <-reached
		time.Sleep(time.Hour) // who has spoken may be silent
		for _, x := range []struct {
			to, from net.Conn
			text     string
		}{{nil, node, "hello"}, {c, node, "more"}, {node, c, "answer"}} {
			if x.to != nil {
				go x.to.Write([]byte(x.text))
			}
			got := make([]byte, len(x.text))
			if _, err := io.ReadFull(x.from, got); err != nil || string(got) != x.text {
				t.Errorf("%q, %v; want %q", got, err, x.text)
			}
		}
		c.Close()
		<-over
		if _, err := node.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || r.all != 0 {
			t.Errorf("the node reads %v, and %d are open", err, r.all)
		}
	})
}
