//go:build linux

package ebpf_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/stf"
	"github.com/ethereal-fabric/ethereal/p4switch/stf/stftest"
)

// canRun reports whether BPF_PROG_TEST_RUN takes a packet: one with an Ethernet
// header, and with that of IP where its type says so.
func canRun(data []byte) bool {
	if len(data) < 14 {
		return false
	}
	switch binary.BigEndian.Uint16(data[12:]) {
	case 0x0800:
		return len(data) >= 14+20
	case 0x86dd:
		return len(data) >= 14+40
	}
	return true
}

// TestP4CSamples runs the scripts that come with p4c through the kernel, and what it
// lets through then through the interpreter: what the scripts expect comes out.
func TestP4CSamples(t *testing.T) {
	var all ways
	stftest.Samples(t, func(t *testing.T, json []byte, script string) {
		w := play(t, json, script)
		t.Logf("%+v", w)
		all.programs += w.programs
		all.whole += w.whole
		all.refused += w.refused
		all.kernel += w.kernel
		all.up += w.up
		all.short += w.short
	})
	t.Logf("%+v", all)
}

// ways counts programs and packets.
type ways struct {
	programs, whole, refused int // whole: the kernel let none through of those that it can be given
	kernel, up, short        int // packets: the kernel's, let through, and not to be run
}

// play runs a script; what a packet's kernel does not finish the interpreter does.
// Then it runs the script again with longer packets, which the kernel is given all
// of: as much comes out as of the interpreter alone.
func play(t *testing.T, json []byte, script string) (w ways) {
	t.Helper()
	p, err := program.Load(json)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stf.Parse(filepath.Base(script), text)
	if err != nil {
		t.Fatal(err)
	}
	w.programs = 1
	rep, err := s.RunThrough(p, func(sw *interp.Switch) (stf.Process, error) { return w.through(t, sw), nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rep.Failures {
		t.Error(f)
	}
	want := outputs(t, s, p, func(sw *interp.Switch) stf.Process {
		return func(in interp.Input, emit func(interp.Output)) error {
			sw.Process(in, emit)
			return nil
		}
	})
	got := outputs(t, s, p, func(sw *interp.Switch) stf.Process { return w.through(t, sw) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with longer packets (- interpreter, + kernel):\n%s", diff)
	}
	if w.kernel > 0 && w.up == 0 {
		w.whole = 1
	}
	return w
}

// outputs returns what comes out when a script's packets have 60 bytes more.
func outputs(t *testing.T, s *stf.Script, p *program.Program, through func(*interp.Switch) stf.Process) (out []string) {
	t.Helper()
	_, err := s.RunThrough(p, func(sw *interp.Switch) (stf.Process, error) {
		process := through(sw)
		return func(in interp.Input, emit func(interp.Output)) error {
			out = append(out, "in")
			in.Data = append(bytes.Clone(in.Data), bytes.Repeat([]byte{0x5a, 0x08, 0}, 20)...)
			return process(in, func(o interp.Output) {
				out = append(out, result(o.Port, o.Data))
				emit(o)
			})
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// through loads a switch's program into the kernel.
func (w *ways) through(t *testing.T, sw *interp.Switch) stf.Process {
	k, err := ebpf.Load(sw, ebpf.Config{QueuesPerPort: 8, Stopped: true, Ports: map[uint32]uint32{}})
	if err != nil {
		t.Logf("refused: %v", err)
		w.refused = 1
		return func(in interp.Input, emit func(interp.Output)) error {
			w.up++
			sw.Process(in, emit)
			return nil
		}
	}
	t.Cleanup(k.Close)
	return func(in interp.Input, emit func(interp.Output)) error { return w.packet(sw, k, in, emit) }
}

func (w *ways) packet(sw *interp.Switch, k *ebpf.Switch, in interp.Input, emit func(interp.Output)) error {
	if !canRun(in.Data) {
		w.short++
		sw.Process(in, emit)
		return nil
	}
	if err := k.Sync(); err != nil {
		return err
	}
	if err := k.SetPort(in.Port, 1); err != nil {
		return err
	}
	r, err := k.Run(in.Data)
	if err != nil {
		return err
	}
	switch r.Fate {
	case ebpf.FateForwarded, ebpf.FateNoPort:
		w.kernel++
		emit(interp.Output{Port: r.Port, Data: r.Data})
	case ebpf.FateDroppedIngress, ebpf.FateDroppedEgress, ebpf.FatePriority:
		w.kernel++
	default:
		if !bytes.Equal(r.Data, in.Data) {
			return fmt.Errorf("%x is let through as %x", in.Data, r.Data)
		}
		w.up++
		sw.Process(in, emit)
	}
	return nil
}
