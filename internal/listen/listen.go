// Package listen opens the listeners of our processes, and serves HTTP on them.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// At listens at a flag's address, HOST:PORT or unix:PATH; for "" it returns nil. Outside the loopback, clients have
// to show certificates.
func At(flag, addr string, files *certs.Files) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	if strings.HasPrefix(addr, "unix:") {
		return Unix(flag, addr)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if !Loopback(addr) && !files.Mutual() {
		return nil, fmt.Errorf("%s: %s is not on the loopback; that needs --tls-ca, --tls-cert and --tls-key", flag, addr)
	}
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return lis, nil
}

// Loopback reports whether only this machine can reach HOST:PORT.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Unix listens at a flag's address, unix:PATH, for programs of the same user; for "" it returns nil.
func Unix(flag, addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	return unix(flag, addr, "unix")
}

// Packets is Unix for a socket that keeps message boundaries. It also takes unix:@NAME, Linux's abstract sockets, which
// are separate per network namespace. They have no permissions: their server refuses other users, as [accept.Serve]
// does.
func Packets(flag, addr string) (*net.UnixListener, error) {
	const network = "unixpacket"
	name, ok := strings.CutPrefix(addr, "unix:@")
	if !ok {
		return unix(flag, addr, network)
	}
	if name == "" {
		return nil, fmt.Errorf("%s: %q has no name after the @", flag, addr)
	}
	lis, err := net.ListenUnix(network, &net.UnixAddr{Name: "@" + name, Net: network})
	for end := time.Now().Add(time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); { // a killed process is ending
		time.Sleep(10 * time.Millisecond)
		lis, err = net.ListenUnix(network, &net.UnixAddr{Name: "@" + name, Net: network})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return lis, nil
}

func unix(flag, addr, network string) (*net.UnixListener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return nil, fmt.Errorf("%s: %q is not unix:PATH", flag, addr)
	}
	at := &net.UnixAddr{Name: strings.TrimPrefix(path, "//"), Net: network}
	if info, err := os.Lstat(at.Name); err == nil && info.Mode()&os.ModeSocket != 0 {
		// If nobody answers, the socket was left by a killed process.
		if c, err := net.DialUnix(network, nil, at); err == nil {
			return nil, errors.Join(fmt.Errorf("%s: somebody serves at %s already", flag, at.Name), c.Close())
		}
		if err := os.Remove(at.Name); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	lis, err := net.ListenUnix(network, at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := os.Chmod(at.Name, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", flag, err), lis.Close())
	}
	return lis, nil
}

// Close closes listeners; nil ones are skipped.
func Close(all ...net.Listener) (err error) {
	for _, l := range all {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// idle is the time after which an idle connection is closed. Without it a client with one request would keep a
// descriptor for ever.
const idle = 2 * time.Minute

// Server returns an HTTP server for pages and processes' status, over TLS if files has certificates. Without TLS,
// requests to a loopback address must name one: a site whose name leads to this machine would otherwise read the
// answers by a user's browser.
func Server(h http.Handler, files *certs.Files) *http.Server {
	return &http.Server{Handler: files.Handler(ownNames(h)), TLSConfig: files.ServerConfig(), ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout: idle, MaxHeaderBytes: 1 << 14}
}

// Serve makes the group serve a listener until ctx ends; it skips a nil listener.
func Serve(ctx context.Context, g *errgroup.Group, srv *http.Server, lis net.Listener) {
	if lis == nil {
		return
	}
	g.Go(func() error {
		serve := srv.Serve
		if srv.TLSConfig != nil {
			serve = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
		}
		if err := serve(lis); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		return srv.Close()
	})
}

// ownNames refuses requests to a loopback address under other machines' names.
func ownNames(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if ok && at.IP.IsLoopback() && r.TLS == nil && !LoopbackName(r.Host) {
			http.Error(w, "ask by a loopback address, such as "+at.String(), http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// LoopbackName reports whether a host, with or without a port, names this machine by a loopback address, or localhost.
func LoopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.IsLoopback()
}
