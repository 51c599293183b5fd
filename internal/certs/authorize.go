package certs

import (
	"context"
	"net/http"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Caller returns the identities in a gRPC client's certificate. known is false if the server did not ask for a
// certificate, on the loopback.
func Caller(ctx context.Context) (ids []Identity, known bool, err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil, false, nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return nil, false, nil
	}
	ids, err = Identities(info.State.PeerCertificates[0])
	return ids, true, err
}

// IsHost reports whether the caller may speak for a host: its certificate is that host's, or has no identity, which
// only servers that trust any role accept.
func IsHost(ctx context.Context, name string) bool {
	ids, known, err := Caller(ctx)
	if !known || err == nil && len(ids) == 0 {
		return true
	}
	return slices.Contains(ids, Identity{Host, name})
}

// RoleOf returns the most trusted role in a gRPC client's certificate; empty: none.
func RoleOf(ctx context.Context) string {
	ids, _, err := Caller(ctx)
	if err != nil {
		return ""
	}
	for _, r := range Roles() { // most trusted first
		if slices.ContainsFunc(ids, func(id Identity) bool { return id.Role == r }) {
			return string(r)
		}
	}
	return ""
}

func checkCaller(ctx context.Context, call string) error {
	ids, _, err := Caller(ctx)
	if err == nil {
		err = Check(call, ids)
	}
	if err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

// Authorize returns the options of a gRPC server that checks every call against the table of roles. There are none
// if the server asks for no certificates or trusts any role.
func (t *Files) Authorize() []grpc.ServerOption {
	if !t.Mutual() || t.AnyRole {
		return nil
	}
	return AuthorizeCalls()
}

// AuthorizeCalls returns the options of [Files.Authorize] for a gRPC server whose TLS is configured elsewhere.
func AuthorizeCalls() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := checkCaller(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := checkCaller(s.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(srv, s)
		}),
	}
}

// Handler wraps h so that each HTTP request is checked against the table of roles, as [Files.Authorize] does for gRPC.
func (t *Files) Handler(h http.Handler) http.Handler {
	if !t.Mutual() || t.AnyRole {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ids []Identity
		var err error
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			ids, err = Identities(r.TLS.PeerCertificates[0])
		}
		if err == nil {
			err = Check(r.Method+" "+r.URL.Path, ids)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
