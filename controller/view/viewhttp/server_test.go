package viewhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
)

// TestServer: the page is for who knows its path, on this machine, to be read; and it says that it loads nothing.
func TestServer(t *testing.T) {
	s := viewhttp.NewServer(func() (*view.Page, error) { return &view.Page{Title: "</script><b>"}, nil }, viewhttp.NewLive(1)).WithSwitchStates(
		func(_ context.Context, _ int, name string, _ float64) (*view.Switch, error) {
			if name != "tor0" {
				return nil, nil
			}
			return &view.Switch{Tables: []view.Table{{Name: "data"}}}, nil
		})
	if other := viewhttp.NewServer(nil, nil); other.Path() == s.Path() || len(s.Path()) < 20 {
		t.Errorf("paths %s and %s", s.Path(), other.Path())
	}
	for _, c := range []struct {
		name, method, path, host, site, mode string
		want                                 int
	}{
		{"page", "GET", s.Path(), "127.0.0.1:8080", "none", "navigate", http.StatusOK},
		{"by name", "GET", s.Path(), "localhost:8080", "", "", http.StatusOK},
		{"by IPv6", "GET", s.Path(), "[::1]:8080", "", "", http.StatusOK},
		{"no token", "GET", "/", "127.0.0.1", "", "", http.StatusNotFound},
		{"wrong token", "GET", "/" + strings.Repeat("A", 26) + "/", "127.0.0.1", "", "", http.StatusNotFound},
		{"events without a token", "GET", "/events", "127.0.0.1", "", "", http.StatusNotFound},
		{"what is not there", "GET", s.Path() + "etc/passwd", "127.0.0.1", "", "", http.StatusNotFound},
		{"switch", "GET", s.Path() + "switch?run=0&name=tor0&t=0", "127.0.0.1", "same-origin", "cors", http.StatusOK},
		{"no such switch", "GET", s.Path() + "switch?run=0&name=tor9&t=0", "127.0.0.1", "", "", http.StatusNotFound},
		{"no switch", "GET", s.Path() + "switch", "127.0.0.1", "", "", http.StatusBadRequest},
		{"a switch without a token", "GET", "/switch?run=0&name=tor0&t=0", "127.0.0.1", "", "", http.StatusNotFound},
		{"another site's switch", "GET", s.Path() + "switch?run=0&name=tor0&t=0", "127.0.0.1", "cross-site", "no-cors", http.StatusForbidden},
		{"another site's picture of it", "GET", s.Path() + "switch?run=0&name=tor0&t=0", "127.0.0.1", "same-site", "no-cors", http.StatusForbidden},
		{"write to a switch", "POST", s.Path() + "switch?run=0&name=tor0&t=0", "127.0.0.1", "", "", http.StatusMethodNotAllowed},
		{"change a switch", "PUT", s.Path() + "events", "127.0.0.1", "", "", http.StatusMethodNotAllowed},
		{"write", "POST", s.Path(), "127.0.0.1", "", "", http.StatusMethodNotAllowed},
		{"delete", "DELETE", s.Path(), "127.0.0.1", "", "", http.StatusMethodNotAllowed},
		{"a name that leads here", "GET", s.Path(), "evil.example:8080", "", "", http.StatusMisdirectedRequest},
		{"another site's script", "GET", s.Path(), "127.0.0.1", "cross-site", "cors", http.StatusForbidden},
		{"another site's events", "GET", s.Path() + "events", "127.0.0.1", "same-site", "cors", http.StatusForbidden},
	} {
		r := httptest.NewRequest(c.method, "http://x"+c.path, nil)
		r.Host = c.host
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
			r.Header.Set("Sec-Fetch-Mode", c.mode)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d", c.name, w.Code, c.want)
		}
		body, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		if c.want != http.StatusOK {
			if bytes.Contains(body, []byte("data")) || strings.Contains(string(body), s.Path()) {
				t.Errorf("%s: it says %q", c.name, body)
			}
			continue
		}
		if w.Header().Get("Content-Type") == "application/json" {
			continue
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, must := range []string{"default-src 'none'", "connect-src 'self'", "script-src 'sha256-", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, must) {
				t.Errorf("%s: the policy %q lacks %s", c.name, policy, must)
			}
		}
		if strings.Contains(string(body), "</script><b>") {
			t.Errorf("%s: a title ends the script", c.name)
		}
	}
}

func TestListen(t *testing.T) {
	for addr, ok := range map[string]bool{"fd:1": false, "fd:x": false, "fd:60000": false, "127.0.0.1:0": true, "localhost:0": true, "0.0.0.0:0": false, ":0": false, "10.0.0.1:80": false, "x": false} {
		l, err := viewhttp.Listen(addr, false)
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if l != nil {
			l.Close() //nolint:errcheck // it was only tried
		}
	}
}

// TestListenInherited: a socket that listens is taken over by its number, and only one of a loopback address.
func TestListenInherited(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:0": true, "0.0.0.0:0": false} {
		first, err := net.Listen("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		file, err := first.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Dup(int(file.Fd())) // Listen closes what it takes
		if err != nil {
			t.Fatal(err)
		}
		l, err := viewhttp.Listen(fmt.Sprintf("fd:%d", fd), false)
		if (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
		if l != nil {
			if l.Addr().String() != first.Addr().String() {
				t.Errorf("%s is not %s", l.Addr(), first.Addr())
			}
			l.Close() //nolint:errcheck // it was only tried
		}
		file.Close()  //nolint:errcheck // likewise
		first.Close() //nolint:errcheck // likewise
	}
}

// oneConn is a listener of one connection.
type oneConn struct{ conns chan net.Conn }

func (l oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestStalledBrowser: a browser that asks and reads nothing is cut off after a while.
func TestStalledBrowser(t *testing.T) {
	for _, what := range []string{"", "events", "switch?run=0&name=tor0&t=0"} {
		synctest.Test(t, func(t *testing.T) {
			s := viewhttp.NewServer(func() (*view.Page, error) { return &view.Page{}, nil }, viewhttp.NewLive(1)).WithSwitchStates(
				func(context.Context, int, string, float64) (*view.Switch, error) { return &view.Switch{}, nil })
			browser, conn := net.Pipe()
			l := oneConn{make(chan net.Conn, 1)}
			l.conns <- conn
			srv := &http.Server{Handler: s}
			ended := make(chan error, 1)
			go func() { ended <- srv.Serve(l) }()
			fmt.Fprintf(browser, "GET %s%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", s.Path(), what)
			time.Sleep(time.Minute)
			synctest.Wait()
			if n, err := browser.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%q: after a minute it got %d bytes, %v", what, n, err)
			}
			close(l.conns)
			srv.Close() //nolint:errcheck // it ends anyway
			<-ended
		})
	}
}

// TestSecret: a secret is made once and kept for its owner alone.
func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	made, err := viewhttp.Secret(path)
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := viewhttp.Secret(path); err != nil || kept != made || len(made) < 20 {
		t.Errorf("%q, then %q, %v", made, kept, err)
	}
	if s := viewhttp.NewServer(nil, nil).WithSecret(made); s.Path() != "/"+made+"/" {
		t.Errorf("path %s", s.Path())
	}
	for _, bad := range []func() error{
		func() error { return os.Chmod(path, 0o644) },
		func() error { return errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("short\n"), 0o600)) },
	} {
		if err := bad(); err != nil {
			t.Fatal(err)
		}
		if _, err := viewhttp.Secret(path); err == nil {
			t.Error("it is taken")
		}
	}
}
