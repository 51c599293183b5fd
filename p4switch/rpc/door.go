package rpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that is wrapped
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// How long a connection may be silent.
const (
	handshakeTime = 10 * time.Second
	idleTime      = 2 * time.Minute // time without an RPC after which a connection is closed
	// After so long in silence a connection is probed, and after so long again without an answer it ends: a primary
	// that hangs is replaced within twice this time. A shorter time would replace primaries that are only slow.
	probeTime = 3 * time.Second
)

// Options returns the options of a gRPC server of this switch's services: they check connections, RPCs and messages
// against the budget before the services get them. role returns the role in a client's certificate (controller,
// operator, host or switch), which decides the client's share; nil: no client has a role. Use the result for one server
// only.
func Options(b Budget, role func(context.Context) string) []grpc.ServerOption {
	b = b.WithDefaults()
	d := newRPCAdmission(b, role)
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(b.MessageBytes),
		grpc.MaxConcurrentStreams(uint32(b.RPCsPerConnection)),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTime, Time: probeTime, Timeout: probeTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(d.admitRPC),
		grpc.ChainUnaryInterceptor(releaseBeforeAnswer, checkUnary(b.MessageParts)),
		grpc.ChainStreamInterceptor(checkStream(b.MessageParts)),
		grpc.ForceServerCodecV2(codec{CodecV2: encoding.GetCodecV2("proto"), parts: b.MessageParts}),
	}
}

// releaseBeforeAnswer releases a request before its answer is sent, so that a client that waits for answers is never
// refused. The end of the stream, which releases RPCs without handler, comes after the answer, and some time after it
// on a busy machine.
func releaseBeforeAnswer(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if x, ok := ctx.Value(callKey{}).(*activeRPC); ok {
		defer x.leave()
	}
	return handler(ctx, req)
}

// codec decodes messages with a limited number of parts. A part of two bytes takes a hundred in memory. Unknown
// fields are dropped. gRPC makes INTERNAL of a codec's error, so a message with too many parts is left empty but for
// the field tooMany, and the interceptors refuse it.
type codec struct {
	encoding.CodecV2
	parts int
}

// tooMany is a field that no message has.
var tooMany = protowire.AppendVarint(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.VarintType), 1)

// checkParts refuses a message that the codec left undecoded.
func checkParts(v any, parts int) error {
	if m, ok := v.(proto.Message); ok && len(m.ProtoReflect().GetUnknown()) > 0 {
		return Status(Errorf(codes.ResourceExhausted, "more than the budget parts of %d; split the request", parts))
	}
	return nil
}

func checkUnary(parts int) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if err := checkParts(req, parts); err != nil {
			return nil, err
		}
		return handler(ctx, req)
	}
}

func checkStream(parts int) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, &checkedMessage{ServerStream: ss, parts: parts})
	}
}

type checkedMessage struct {
	grpc.ServerStream
	parts int
}

// RecvMsg implements grpc.ServerStream.
func (c *checkedMessage) RecvMsg(m any) error {
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkParts(m, c.parts)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	b := buf.ReadOnlyData()
	// A part has at least two bytes.
	if len(b)/2 > c.parts {
		if left := countParts(b, m.ProtoReflect().Descriptor(), c.parts, maxDepth); left < 0 {
			m.ProtoReflect().SetUnknown(tooMany)
			return nil
		}
	}
	return proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, m)
}

// maxDepth is the largest nesting of messages; P4Runtime's and gNMI's own is smaller.
const maxDepth = 100

// countParts subtracts the number of a message's parts from left, until that is below 0. In a malformed message the
// parts before the error count.
func countParts(b []byte, md protoreflect.MessageDescriptor, left, depth int) int {
	if depth == 0 {
		return -1
	}
	fields := md.Fields()
	for len(b) > 0 && left >= 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return left
		}
		b = b[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return left
			}
			b = b[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return left
		}
		b = b[n:]
		fd := fields.ByNumber(num)
		switch {
		case fd == nil:
		case fd.Message() != nil:
			left = countParts(value, fd.Message(), left-1, depth-1)
		case fd.IsList():
			left--
		}
	}
	return left
}

// LimitConnections returns a listener that closes new connections while too many are open.
func LimitConnections(l net.Listener, b Budget) net.Listener {
	return &limitedStream{Listener: l, most: int64(b.WithDefaults().Connections)}
}

type limitedStream struct {
	net.Listener
	open atomic.Int64
	most int64
}

// Accept implements net.Listener.
func (l *limitedStream) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &countedStream{Conn: c, l: l}, nil
		}
		l.open.Add(-1)
		c.Close() //nolint:errcheck // nothing was said
	}
}

type countedStream struct {
	net.Conn
	l    *limitedStream
	once sync.Once
}

// Close implements net.Conn.
func (c *countedStream) Close() error {
	c.once.Do(func() { c.l.open.Add(-1) })
	return c.Conn.Close()
}
