package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/bounded"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// small returns a recording with one of everything.
func small(t testing.TB) *Recording {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 1})
	if err != nil {
		t.Fatal(err)
	}
	const us = fabric.Microsecond
	r := &Recording{
		Result: &report.Result{Scenario: "small", Scheme: "ethereal", Finished: true}, Fabric: f, Every: us,
		Slices: []Slice{
			{Kind: Collective, End: 3 * us, Node: -1, Dst: -1},
			{Kind: Message, End: 2 * us, ID: 7, Dst: 1, Bytes: 4096, Received: us},
			{Kind: Piece, End: 2 * us, ID: 1, Message: 7, Dst: 1, Bytes: 4096, Path: pathOf(f, 0, 1, 0)},
			{Kind: Probe, Begin: us, End: 3 * us, Open: true, ID: 2, Dst: 1},
		},
		Instants: []Instant{
			{At: us, Kind: report.KindCut, Node: 2, Dir: sim.Upward(2), Count: 1, Cause: -1},
			{At: us, Kind: report.KindQuench, Dir: -1, Count: 1, Cause: 0, Text: "tor0 port 2"},
			{At: us, Kind: report.KindFlip, Dir: -1, Count: 1, QP: 1, Cause: 1},
			{At: 2 * us, Kind: "gnmi", Node: -1, Dir: -1, Count: 1, Cause: -1},
		},
		Readings: []fabric.Time{us, 2 * us, 3 * us},
		Links:    make([]LinkReading, 3*2*f.Links()), Hosts: make([]HostReading, 3*f.Hosts()),
	}
	r.Links[1] = LinkReading{Use: 10_000, Queue: 5, Peak: 9}
	r.Hosts[3] = HostReading{Rate: 400, InFlight: 4096, Allowed: 200}
	return r
}

// TestReadPacked: a trace that gzip has packed is read like another.
func TestReadPacked(t *testing.T) {
	var plain, packed bytes.Buffer
	if err := small(t).Write(&plain); err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, in := range []*bytes.Buffer{&plain, &packed} {
		if !IsTrace(in.Bytes()) {
			t.Error("it is not taken for a trace")
		}
		r, err := Read(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Slices) != 4 || len(r.Instants) != 4 || r.Instants[2].Cause != 1 || r.Link(0, 1).Peak != 9 || r.Host(1, 1).InFlight != 4096 {
			t.Errorf("%+v", r)
		}
	}
}

// TestReadRefuses: what is no trace of ours is refused by what is wrong with it.
func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "of which fabric"},
		{"{}", "byte 0x7b"},
		{"\x0a\x05\x00", "packet 0"},
		{"\x0a\xff\xff\xff\xff\x0f", "too large"},
		{"\x1f\x8b", "EOF"},
	} {
		_, err := Read(t.Context(), strings.NewReader(c.in))
		if !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.in, err, c.want)
		}
	}
}

// FuzzRead: no bytes make the reader panic, and what it reads can be written.
func FuzzRead(f *testing.F) {
	var trace bytes.Buffer
	if err := small(f).Write(&trace); err != nil {
		f.Fatal(err)
	}
	f.Add(trace.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(t.Context(), bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := r.Write(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// TestReadBomb: what a small file unpacks to is bounded, in packets and in bytes, and reading ends with its context.
func TestReadBomb(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(bytes.Repeat([]byte{0x0A, 0}, 1<<16)) //nolint:errcheck // into memory
	z.Close()                                     //nolint:errcheck // as above
	for name, most := range map[string]traceLimits{"packets": {1 << 10, 1 << 30}, "bytes": {1 << 30, 1 << 10}} {
		if _, err := read(t.Context(), bytes.NewReader(packed.Bytes()), most); !errors.Is(err, ErrTrace) || !errors.Is(err, bounded.ErrTooLong) {
			t.Errorf("%s: %v, want that it is too long", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, bytes.NewReader(packed.Bytes())); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}
