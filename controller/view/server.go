package view

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Server serves a page to a browser on this machine.
type Server struct {
	token string
	page  func() (*Page, error)
	live  *Live // nil: the page is not live
	asked Asked // nil: nobody knows what switches have

	traces Traces // nil: there are none
}

// NewServer returns a server of what page returns, under a random path. live, if not nil, feeds the page.
func NewServer(page func() (*Page, error), live *Live) *Server {
	return &Server{token: rand.Text(), page: page, live: live}
}

// Under has the page under a secret of the caller's, as [Secret] returns, instead of a random one.
func (s *Server) Under(secret string) *Server {
	s.token = secret
	return s
}

// Path returns the path at which the page is, "/TOKEN/". Who does not know it gets nothing.
func (s *Server) Path() string { return "/" + s.token + "/" }

// ServeHTTP answers GET of the page, and of its events, and refuses all else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", s.opener())
	h.Set("Cache-Control", "no-store")
	switch token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); {
	case r.TLS == nil && !loopbackName(r.Host):
		// A name of another's that leads here: its pages would be of one origin with this one. Over TLS the certificate
		// has been held against the name.
		http.Error(w, "ask by a loopback address", http.StatusMisdirectedRequest)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
	case foreign(r):
		http.Error(w, "asked for by another site", http.StatusForbidden)
	case rest == "":
		s.servePage(w)
	case rest == "trace" && s.traces != nil:
		s.serveTrace(w, r)
	case rest == "switch" && s.asked != nil:
		s.serveSwitch(w, r)
	case rest == "events" && s.live != nil:
		s.live.serve(w, r)
	default:
		http.NotFound(w, r)
	}
}

// opener says who may hold on to the page's window: nobody, but for windows that it opens itself if it hands them traces.
func (s *Server) opener() string {
	if s.traces != nil {
		return "same-origin-allow-popups"
	}
	return "same-origin"
}

func (s *Server) servePage(w http.ResponseWriter) {
	p, err := s.page()
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	served := *p
	served.Tables, served.Traces = s.asked != nil, s.traces != nil
	if s.live != nil {
		served.Session = s.live.session
	}
	parts, err := assemble(&served, "'self'")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var body bytes.Buffer
	if err := parts.write(&body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	lasting(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", parts.Policy+"; frame-ancestors 'none'")
	w.Write(body.Bytes()) //nolint:errcheck // the browser has left
}

// writeWithin is how long a browser may take to read what it asked for, or one message of a stream.
const writeWithin = 30 * time.Second

// lasting has what is written from now on fail unless it is read in time. A browser that has stalled holds nothing for
// ever.
func lasting(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) //nolint:errcheck // a recorder of a test has none
}

// lastingWriter is a writer of which each write has its time, for answers that take longer.
type lastingWriter struct{ http.ResponseWriter }

func (l lastingWriter) Write(b []byte) (int, error) {
	lasting(l.ResponseWriter)
	return l.ResponseWriter.Write(b)
}

// foreign reports whether a browser says that another site's page asks. To follow a link or open the address is none's.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// loopbackName reports whether a Host header names this machine by a loopback address, or localhost.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.IsLoopback()
}
