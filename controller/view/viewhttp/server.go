package viewhttp

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/internal/listen"
)

// Server serves a page to a browser on this machine.
type Server struct {
	token       string
	page        func() (*view.Page, error)
	live        *Live           // nil: the page is not live
	switchState SwitchStateFunc // nil: switches' tables are unknown

	openTrace TraceOpener // nil: there are none
}

// NewServer returns a server of the page that page returns, under a random path. live, if not nil, feeds the page.
func NewServer(page func() (*view.Page, error), live *Live) *Server {
	return &Server{token: rand.Text(), page: page, live: live}
}

// WithSecret makes the page's path contain the given secret, as [Secret] returns, instead of a random one.
func (s *Server) WithSecret(secret string) *Server {
	s.token = secret
	return s
}

// Path returns the path of the page, "/TOKEN/". Requests without it are refused.
func (s *Server) Path() string { return "/" + s.token + "/" }

// ServeHTTP answers GET of the page, and of its events, and refuses all other requests.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", s.openerPolicy())
	h.Set("Cache-Control", "no-store")
	switch token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); {
	case r.TLS == nil && !listen.LoopbackName(r.Host):
		// Another site's name that leads here: its pages would have the same origin as this one. Over TLS the
		// certificate has been checked for the name.
		http.Error(w, "ask by a loopback address", http.StatusMisdirectedRequest)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.NotFound(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
	case crossSite(r):
		http.Error(w, "asked for by another site", http.StatusForbidden)
	case rest == "":
		s.servePage(w)
	case rest == "trace" && s.openTrace != nil:
		s.serveTrace(w, r)
	case rest == "switch" && s.switchState != nil:
		s.serveSwitch(w, r)
	case rest == "events" && s.live != nil:
		s.live.serve(w, r)
	default:
		http.NotFound(w, r)
	}
}

// openerPolicy returns the policy about handles to the page's window: no other window gets one, except windows that the
// page itself opens to pass traces.
func (s *Server) openerPolicy() string {
	if s.openTrace != nil {
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
	served.Tables, served.Traces = s.switchState != nil, s.openTrace != nil
	if s.live != nil {
		served.Session = s.live.session
	}
	var body bytes.Buffer
	policy, err := view.ServedHTML(&body, &served)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	setWriteDeadlines(w)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy+"; frame-ancestors 'none'")
	w.Write(body.Bytes()) //nolint:errcheck // the browser has left
}

// writeWithin is the time allowed for a browser to read an answer, or one message of a stream.
const writeWithin = 30 * time.Second

// setWriteDeadlines makes writes fail from now on unless they are read in time, so that a stalled browser holds no
// resources for ever.
func setWriteDeadlines(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin)) //nolint:errcheck // a recorder of a test has none
}

// deadlineWriter is a writer with a time limit per write, for longer answers.
type deadlineWriter struct{ http.ResponseWriter }

func (l deadlineWriter) Write(b []byte) (int, error) {
	setWriteDeadlines(l.ResponseWriter)
	return l.ResponseWriter.Write(b)
}

// crossSite reports whether the browser says that another site's page made the request. A followed link or an opened
// address is not foreign.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate"
}
