//go:build linux

package port_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// TestTap: a tap shows what others send and receive by an interface, but not what is hidden, and writes it to files.
func TestTap(t *testing.T) {
	l := newLink(t, 1500, port.InterfaceOptions{})
	dir := t.TempDir()
	tap, err := port.OpenTap()
	if err != nil {
		t.Fatal(err)
	}
	type shown struct {
		sent   bool
		length int
	}
	seen := make(chan shown, 100)
	if err := tap.Add("b", port.TapOptions{Hidden: 7, Dir: dir, Show: func(sent bool, f []byte) { seen <- shown{sent, len(f)} }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tap.Run(ctx) }()
	expect := func(want shown) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("%+v, not %+v", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no %+v after a minute", want)
		}
	}
	l.a.Send([][]byte{make([]byte, 100)})
	expect(shown{false, 100})
	l.b.Send([][]byte{make([]byte, 200)})
	expect(shown{true, 200})
	l.a.Send([][]byte{make([]byte, 300), make([]byte, 400)})
	expect(shown{false, 300})
	expect(shown{false, 400})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := tap.Lost(); n != 0 {
		t.Errorf("%d lost", n)
	}
	if err := tap.Close(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{"b_in.pcap": 3, "b_out.pcap": 1} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // only read
		r, err := pcapgo.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; err == nil; n++ {
			_, _, err = r.ReadPacketData()
		}
		if n-1 != want {
			t.Errorf("%s: %d frames, not %d: %v", name, n-1, want, err)
		}
	}
}
