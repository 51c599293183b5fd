package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

func newChecker(t *testing.T, cfg Config) *checker {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &checker{Config: cfg, f: f}
}

// seen returns the lines that are not green, as text.
func (c *checker) seen() (out []string) {
	for _, l := range c.list.Lines([]string{thisMachine, wholeFabric}) {
		if l.Light != checklist.Green {
			out = append(out, l.Light.String()+" "+l.Check+": "+l.Seen+"; "+l.Remedy)
		}
	}
	return out
}

// expect compares lines with what each has to contain, in order.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		for part := range strings.SplitSeq(want[i], "...") {
			ok = ok && strings.Contains(got[i], part)
		}
	}
	if !ok {
		t.Errorf("lines (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// TestDates looks at a certificate from before its time to after it.
func TestDates(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cert := &x509.Certificate{NotBefore: begin, NotAfter: begin.Add(365 * 24 * time.Hour)}
	for name, tt := range map[string]struct {
		now  time.Time
		want []string
	}{
		"early":            {begin.Add(-time.Second), []string{"red x: valid only from 2026-01-01...set this machine's clock"}},
		"at once":          {begin, nil},
		"30 days left":     {cert.NotAfter.Add(-expiryWarning), nil},
		"less":             {cert.NotAfter.Add(-expiryWarning + time.Second), []string{"yellow x: expires in 29 days...make a new one"}},
		"the last second":  {cert.NotAfter.Add(-time.Second), []string{"yellow x: expires in 0 days"}},
		"no second left":   {cert.NotAfter, []string{"red x: expired on 2027-01-01...make a new one"}},
		"years after that": {cert.NotAfter.AddDate(3, 0, 0), []string{"red x: expired on 2027-01-01"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker(t, Config{Now: func() time.Time { return tt.now }})
			c.checkValidity(thisMachine, "x", cert)
			expect(t, c.seen(), tt.want...)
		})
	}
}

// TestSettings: what the targets file says of quenches, priorities and marks is not said of switches that do not do it.
func TestSettings(t *testing.T) {
	pins, err := kinds.All().ByName("pins")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Daemon: daemon.Config{
		Core:    controller.Config{QuenchIntervalUs: 10, ECN: controller.ECN{Kmin: 1000, Kmax: 2000, Pmax: 1, Unit: 1}},
		Targets: map[fabric.NodeID]daemon.Target{2: {}, 3: {Profile: pins}},
	}}
	c := newChecker(t, cfg)
	c.settings()
	expect(t, c.seen(), "unseen priority: tables.control_priority has no effect on 1 pins", "unseen ecn: tables.ecn has no effect on 1 pins")
	for _, l := range c.list.Lines([]string{thisMachine, wholeFabric}) {
		if l.Check == "quench" && !strings.Contains(l.Seen, "at most every 10 us; 1 pins never") {
			t.Errorf("%+v", l)
		}
	}
	cfg.Daemon.Targets = map[fabric.NodeID]daemon.Target{2: {}}
	c = newChecker(t, cfg)
	c.settings()
	expect(t, c.seen())
}

// TestNoTLS: without TLS switches have to be on this machine.
func TestNoTLS(t *testing.T) {
	for addr, local := range map[string]bool{
		"localhost:1": true, "127.0.0.1:1": true, "[::1]:1": true, "unix:/run/s": true,
		"10.0.0.1:1": false, "tor0:1": false, "nonsense": false, "localhost.example:1": false,
	} {
		c := newChecker(t, Config{Daemon: daemon.Config{Targets: map[fabric.NodeID]daemon.Target{2: {P4Runtime: addr}}}})
		c.certificates()
		if got := len(c.seen()) == 0; got != local {
			t.Errorf("%s: on this machine: %v, want %v", addr, got, local)
		}
	}
}

// TestPeerCertificate looks at the one that a server shows, trusted or not.
func TestPeerCertificate(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	now := s.Certificate().NotAfter.Add(time.Hour)
	c := newChecker(t, Config{TLS: &tls.Config{RootCAs: x509.NewCertPool()}, Now: func() time.Time { return now }})
	c.peerCertificate(t.Context(), s.Listener.Addr().String(), "tor0")
	c.peerCertificate(t.Context(), "unix:/run/s", "tor1")
	c.peerCertificate(t.Context(), "127.0.0.1:1", "tor1") // said elsewhere
	expect(t, c.seen(), "red certificate: expired on")
}

func TestReach(t *testing.T) {
	for text, want := range map[string]string{
		"tls: first record does not look like a TLS handshake":       "speaks no TLS",
		"tls: failed to verify certificate: certificate has expired": "make it a new certificate",
		"x509: certificate is valid for tor1, not tor0":              "must name tor0:1",
		"dial tcp: connect: connection refused":                      "start it, or correct the flag",
		"error reading server preface: EOF":                          "something else, or it with TLS",
		"what nobody thought of":                                     "see that it runs at tor0:1",
	} {
		if got := reachRemedy(status.Error(codes.Unavailable, text), "tor0:1", "it", "the flag"); !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
	if got := reachRemedy(status.Error(codes.DeadlineExceeded, "context deadline exceeded"), "tor0:1", "it", "f"); !strings.Contains(got, "ping") {
		t.Errorf("no answer: %s", got)
	}
}

// serve answers one path with a status code and a body.
func serve(t *testing.T, path string, code int, body string) (addr string) {
	mux := http.NewServeMux()
	mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		w.Write([]byte(body)) //nolint:errcheck // the client sees
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		code        int
		body        string
		controllers []string
		want        []string
	}{
		"connected":     {200, `{"Host":"h0","Controllers":[{"Open":true},{}]}`, []string{"c"}, nil},
		"to none":       {200, `{"Host":"h0"}`, nil, []string{"yellow agent...follows no controller...--controller"}},
		"not connected": {200, `{"Host":"h0","Controllers":[{}]}`, []string{"c"}, []string{"red agent...reaches none...certificates"}},
		"not yet":       {200, `{"Host":"h0","Controllers":[{}]}`, nil, nil}, // no controller runs
		"another's":     {200, `{"Host":"h1"}`, nil, []string{"red agent...is the agent of h1...correct --host"}},
		"refuses":       {403, "who are you", nil, []string{"red agent: 403 Forbidden: who are you"}},
		"nonsense":      {200, "<html>", nil, []string{"red agent: invalid character"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker(t, Config{Controllers: tt.controllers, Agents: map[fabric.NodeID]string{0: serve(t, "/status", tt.code, tt.body)}})
			c.agent(t.Context(), 0)
			expect(t, c.seen(), tt.want...)
		})
	}
	c := newChecker(t, Config{})
	c.agent(t.Context(), 0)
	expect(t, c.seen(), "unseen agent...add to the targets file: hosts: {h0: {admin: HOST:PORT}}")
}

// TestControllers: the first that is primary of a switch leads.
func TestControllers(t *testing.T) {
	primary := serve(t, "/status", 200, `{"Ready":true,"Switches":[{"Primary":true},{}],"Agents":[{}]}`)
	standby := serve(t, "/status", 200, `{"Ready":true,"Switches":[{},{}]}`)
	busy := serve(t, "/status", 200, `{"Ready":false,"Switches":[{"Primary":true},{}]}`)
	gone := "127.0.0.1:1"
	for name, tt := range map[string]struct {
		addrs  []string
		leader string
		want   []string
	}{
		"one":       {[]string{primary}, primary, nil},
		"two":       {[]string{standby, primary}, primary, nil},
		"not ready": {[]string{busy}, busy, []string{"red controller: not ready; primary of 1 of 2 switches"}},
		"gone":      {[]string{gone, primary}, primary, []string{"red controller...connection refused...start the controller, or correct --admin"}},
		"none":      {[]string{standby}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker(t, Config{Controllers: tt.addrs})
			leader := c.controllers(t.Context())
			if leader == nil || *leader != tt.leader {
				t.Errorf("leader %v, want %s", leader, tt.leader)
			}
			expect(t, c.seen(), tt.want...)
		})
	}
	if newChecker(t, Config{}).controllers(context.Background()) != nil {
		t.Error("a leader, though no controller was named")
	}
}

// TestCables has a controller that leads check the cables.
func TestCables(t *testing.T) {
	report := func(r cabling.Report, links int) string {
		for range links {
			r.Links = append(r.Links, cabling.Link{Name: "tor0-spine0", State: cabling.Confirmed})
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, tt := range map[string]struct {
		code  int
		body  string
		token string
		want  []string
	}{
		"as planned":     {200, report(cabling.Report{}, 4), "x", nil},
		"no token":       {200, report(cabling.Report{}, 4), "", []string{"unseen cabling...--admin-token-file"}},
		"wrong token":    {403, "no", "x", []string{"red cabling: 403 Forbidden: no; give the controller's own file"}},
		"busy":           {409, "under way", "x", []string{"unseen cabling...ask again"}},
		"broken":         {500, "oh", "x", []string{"red cabling: 500 Internal Server Error: oh; see ethereal topo check"}},
		"another fabric": {200, report(cabling.Report{}, 5), "x", []string{"red cabling...5 links, and the fabric has 4"}},
		"faults": {200, report(cabling.Report{
			Faults: []cabling.Fault{{What: "w", Remedy: "r"}}, Unasked: map[string]string{"tor1": "silent"},
		}, 4), "x", []string{"red cabling: w; r", "unseen cabling: silent; see the lines about tor1"}},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serve(t, "/cabling", tt.code, tt.body)
			c := newChecker(t, Config{Token: tt.token})
			if err := c.cables(t.Context(), &addr); err != nil {
				t.Fatal(err)
			}
			expect(t, c.seen(), tt.want...)
		})
	}
	none := ""
	c := newChecker(t, Config{Token: "x"})
	if err := c.cables(t.Context(), &none); err != nil {
		t.Fatal(err)
	}
	expect(t, c.seen(), "unseen cabling: no controller is primary")
}

// TestFrames: a cable that carries small frames and no large ones.
func TestFrames(t *testing.T) {
	c := newChecker(t, Config{Token: "x", Frame: 4200})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer x" || r.FormValue("wait") != "3s" {
			t.Errorf("%s %s, authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
		}
		answer := cabling.Report{Links: make([]cabling.Link, c.f.Links())}
		for i := range answer.Links {
			answer.Links[i].Name = c.f.LinkName(fabric.LinkID(i))
			if i == 3 && r.FormValue("frame") == "4200" {
				answer.Links[i].State = cabling.Silent
			}
		}
		json.NewEncoder(w).Encode(answer) //nolint:errcheck // the client sees
	}))
	defer s.Close()
	addr := s.Listener.Addr().String()
	if err := c.cables(t.Context(), &addr); err != nil {
		t.Fatal(err)
	}
	expect(t, c.seen(), "red mtu: "+c.f.LinkName(3)+" does not carry frames of 4200 bytes...raise the MTU")
}
