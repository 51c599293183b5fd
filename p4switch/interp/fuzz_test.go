package interp_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

func samples(t testing.TB) [][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no programs in testdata: %v", err)
	}
	names = append(names, "../../p4src/build/ethereal.json")
	var out [][]byte
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil {
			out = append(out, b)
		}
	}
	return out
}

// terse returns a program without spaces and without what only points at its
// source: a third of the bytes, so that a fuzzer's changes hit what matters.
func terse(t testing.TB, b []byte) []byte {
	t.Helper()
	var strip func(any) any
	strip = func(x any) any {
		switch x := x.(type) {
		case map[string]any:
			delete(x, "source_info")
			for k, v := range x {
				x[k] = strip(v)
			}
		case []any:
			for i, v := range x {
				x[i] = strip(v)
			}
		}
		return x
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(strip(v))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// FuzzLoad: any bytes either load or are refused, and what loads takes packets.
func FuzzLoad(f *testing.F) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(terse(f, b))
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"header_types":[{"name":"x","fields":[["f","*"]]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := program.Load(b)
		if err != nil {
			return
		}
		s := interp.NewSwitch(p, interp.Config{MaxPasses: 8, MaxLoops: 1 << 16})
		for _, n := range []int{0, 1, 64, 300} {
			s.Process(interp.Input{Data: make([]byte, n)}, func(interp.Output) {})
		}
	})
}

// FuzzPacket: any bytes through any of the programs, with real and virtual
// payload; nothing grows from packet to packet.
func FuzzPacket(f *testing.F) {
	f.Add(uint8(0), uint16(1), uint16(0), []byte{1, 2, 3})
	var switches []*interp.Switch
	for _, b := range samples(f) {
		p, err := program.Load(b)
		if err != nil {
			f.Fatal(err)
		}
		s := interp.NewSwitch(p, interp.Config{MaxPasses: 8, MaxLoops: 1 << 16, QueuesPerPort: 8})
		for g := range uint32(8) {
			_ = s.SetMulticastGroup(g+1, []interp.Replica{{Port: g}, {Port: g + 1}})
			_ = s.SetCloneSession(g, interp.CloneSession{Replicas: []interp.Replica{{Port: g}}, Truncate: int(g) * 8})
		}
		switches = append(switches, s)
	}
	f.Fuzz(func(t *testing.T, which uint8, port, extra uint16, data []byte) {
		s := switches[int(which)%len(switches)]
		out := 0
		s.Process(interp.Input{Port: uint32(port), Data: data, Length: len(data) + int(extra)}, func(o interp.Output) {
			if o.Length < len(o.Data) {
				t.Errorf("%d bytes of a packet of %d", len(o.Data), o.Length)
			}
			out++
		})
		if out > 1<<12 {
			t.Errorf("one packet became %d", out)
		}
	})
}
