package machines

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	placement "github.com/ethereal-fabric/ethereal/testbed/machines"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// partOf returns a machine's part, as the first machine sees it, which is served by h.
func partOf(t *testing.T, name string, h http.Handler) *remote {
	t.Helper()
	fromPart, toFirst := io.Pipe()
	fromFirst, toPart := io.Pipe()
	lis := &oneListener{conn: make(chan net.Conn, 1), end: make(chan struct{})}
	lis.conn <- &pipe{Reader: fromFirst, Writer: toFirst, close: func() error { toFirst.Close(); return fromFirst.Close() }}
	server := &http.Server{Handler: h, Protocols: http2Only()}
	over := make(chan struct{})
	go func() { defer close(over); server.Serve(lis) }()
	r := newRemote(name, nil, toPart, fromPart)
	t.Cleanup(func() { r.close(); close(lis.end); <-over })
	return r
}

// TestHostileMachine: a machine whose remote shell, or program, is somebody else's takes the carrier from its own links and
// from no others; what it answers is bounded, and steers no terminal.
func TestHostileMachine(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 3, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	var at []netip.Addr
	for i := range 3 {
		at = append(at, netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}))
	}
	place, err := placement.Place(f, at)
	if err != nil {
		t.Fatal(err)
	}
	const hostile = 1
	own := map[string]bool{} // links between it and others
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for i := -1; i < f.Links()+2; i++ {
		if i >= 0 && i < f.Links() {
			l := f.Link(fabric.LinkID(i))
			if a, b := place.At[l.A.Node], place.At[l.B.Node]; a != b && (a == hostile || b == hostile) {
				own[f.LinkName(l.ID)] = true
			}
		}
		if err := enc.Encode(live.Cable{Link: fabric.LinkID(i), Up: false}); err != nil {
			t.Fatal(err)
		}
	}
	lines.WriteString(strings.Repeat("x", 1<<20))
	var mu sync.Mutex
	orders := map[int][]string{}
	s := &spread{cfg: Config{Fabric: f, Dir: t.TempDir(), Log: io.Discard}, place: place, dark: map[cableEnd]bool{}}
	for m := range at {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /do", func(_ http.ResponseWriter, r *http.Request) {
			var o deployment.Order
			if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			orders[m] = append(orders[m], o.Do+" "+o.Name)
		})
		mux.HandleFunc("POST /host/{name}", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "\x1b]0;yours\a\x1b[2J"+strings.Repeat("y", 1<<20), http.StatusConflict)
		})
		mux.HandleFunc("GET /cables", func(w http.ResponseWriter, _ *http.Request) { w.Write(lines.Bytes()) })
		s.cfg.Machines = append(s.cfg.Machines, Machine{Name: fmt.Sprint("m", m)})
		s.parts = append(s.parts, partOf(t, fmt.Sprint("m", m), mux))
	}
	err = s.parts[hostile].follow(t.Context(), func() {}, func(c live.Cable) { s.carrier(hostile, c) })
	if err == nil || !strings.Contains(err.Error(), "token too long") {
		t.Errorf("a line of 1 MiB: %v", err)
	}
	sent := slices.Concat(orders[0], orders[1], orders[2])
	if len(sent) != len(own) || len(orders[hostile]) != 0 {
		t.Errorf("orders %v; want one for each of %v, to the other machine", orders, own)
	}
	for _, o := range sent {
		if do, name, _ := strings.Cut(o, " "); do != "carrier-down" || !own[name] {
			t.Errorf("a machine is sent %s, which is not of machine %d", o, hostile)
		}
	}
	here, _ := net.Pipe()
	defer here.Close()
	err = s.parts[hostile].host(context.Background(), "h0", here)
	if err == nil || len(err.Error()) > 20<<10 || strings.ContainsAny(err.Error(), "\x1b\a") {
		t.Errorf("an answer of 1 MiB that steers terminals: %.200q", fmt.Sprint(err))
	}
}

// TestPartLog: what a machine writes to its standard error without end takes a bound of this one's disk, and its end is
// shown without what steers a terminal.
func TestPartLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "machine-1.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l := &cappedLog{to: f, left: maxPartLog}
	for block := bytes.Repeat([]byte("\x1b[2J all is well\n"), 1<<16); l.left > 0; {
		if n, err := l.Write(block); n != len(block) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := l.Write([]byte("more")); n != 4 || err != nil {
		t.Error(n, err)
	}
	if info, err := f.Stat(); err != nil || info.Size() != maxPartLog {
		t.Errorf("%v, %v; want %d bytes", info, err, maxPartLog)
	}
	if said := live.Tail(path); len(said) > 16<<10 || strings.Contains(said, "\x1b") || !strings.Contains(said, "all is well") {
		t.Errorf("its last words: %.200q", said)
	}
}
