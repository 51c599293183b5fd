package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// rawCodec passes messages on as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not raw", v)
	}
	return *b, nil
}

func (rawCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not raw", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// proxy stands between a client and a gRPC server and does what networks and busy
// servers do: it cuts streams, is slow, refuses writes, swallows everything.
type proxy struct {
	mu     sync.Mutex
	conns  []net.Conn
	gate   chan struct{} // closed while what arrives passes
	delay  time.Duration // of every message to the server
	errors int           // writes still to be refused
	writes int           // requests that passed and change what the server holds
}

// newProxy serves at addr what target serves.
func newProxy(t *testing.T, addr, target string) *proxy {
	t.Helper()
	p := &proxy{gate: make(chan struct{})}
	close(p.gate)
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip(err)
	}
	const most = 64 << 20
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(most)))
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(most),
		grpc.UnknownServiceHandler(func(_ any, in grpc.ServerStream) error { return p.pass(conn, in) }))
	var g sync.WaitGroup
	g.Go(func() { srv.Serve(&proxyListener{lis, p}) })
	t.Cleanup(func() { p.partition(false); srv.Stop(); conn.Close(); g.Wait() })
	return p
}

// pass hands a call on, and what it answers back.
func (p *proxy) pass(conn *grpc.ClientConn, in grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(in)
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	out, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	refused := make(chan error, 1)
	go func() { // ends with the call's context
		for {
			var m []byte
			if err := in.RecvMsg(&m); err != nil {
				if errors.Is(err, io.EOF) {
					out.CloseSend() //nolint:errcheck // the answer says it
				}
				return
			}
			delay, refuse := p.trouble(method)
			time.Sleep(delay)
			if refuse {
				refused <- status.Error(codes.Unavailable, "busy")
				cancel()
				return
			}
			if out.SendMsg(&m) != nil {
				return
			}
		}
	}()
	for {
		var m []byte
		if err := out.RecvMsg(&m); err != nil {
			in.SetTrailer(out.Trailer())
			select {
			case err := <-refused:
				return err
			default:
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := in.SendMsg(&m); err != nil {
			return err
		}
	}
}

func (p *proxy) trouble(method string) (delay time.Duration, refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	write := strings.HasSuffix(method, "/Write")
	switch {
	case write && p.errors > 0:
		p.errors--
		refuse = true
	case write, strings.HasSuffix(method, "/SetForwardingPipelineConfig"):
		p.writes++
	}
	return p.delay, refuse
}

// wrote returns and forgets how many requests passed that write.
func (p *proxy) wrote() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.writes
	p.writes = 0
	return n
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// set has every message delayed and the next writes refused.
func (p *proxy) set(delay time.Duration, errors int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.errors = delay, errors
}

// partition swallows what is sent, without a word, until it is over.
func (p *proxy) partition(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gate:
		if on {
			p.gate = make(chan struct{})
		}
	default:
		if !on {
			close(p.gate)
		}
	}
}

type proxyListener struct {
	net.Listener
	p *proxy
}

func (l *proxyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	x := &proxyConn{Conn: c, p: l.p, closed: make(chan struct{})}
	l.p.mu.Lock()
	l.p.conns = append(l.p.conns, x)
	l.p.mu.Unlock()
	return x, nil
}

// proxyConn holds back what it reads during a partition.
type proxyConn struct {
	net.Conn
	p      *proxy
	once   sync.Once
	closed chan struct{}
}

func (c *proxyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.p.mu.Lock()
	gate := c.p.gate
	c.p.mu.Unlock()
	select {
	case <-gate:
	case <-c.closed:
	}
	return n, err
}

func (c *proxyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
