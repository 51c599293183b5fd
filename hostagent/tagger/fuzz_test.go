package tagger

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// FuzzKernel passes any bytes to the program in the kernel and to Inline, which
// must make the same of them.
func FuzzKernel(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range []shape{
		{dst: addr4, qpn: 1, payload: 16, checksum: true, opcode: frame.WriteMiddle},
		{dst: addr4, qpn: 1, payload: 3, odd: true, checksum: true, tags: 1, options: 2, opcode: frame.WriteMiddle},
		{dst: addr6, qpn: 1, payload: 0, tags: 2, opcode: frame.WriteMiddle},
		{dst: addr6, qpn: 1, payload: 5, odd: true, checksum: true, trailer: 9, opcode: frame.WriteMiddle},
	} {
		f.Add(s.bytes(f, rng), uint16(0x1234), false)
	}
	var tgs [2]*Tagger
	for i, carrier := range []labeller.Carrier{labeller.SourcePort, labeller.FlowLabel} {
		tgs[i] = loaded(f, Config{IPv6: carrier})
	}
	f.Fuzz(func(t *testing.T, b []byte, label uint16, flowLabel bool) {
		tg, in := tgs[0], labellertest.NewInline(labeller.SourcePort, 0)
		if flowLabel {
			tg, in = tgs[1], labellertest.NewInline(labeller.FlowLabel, 0)
		}
		if len(b) > 3000 {
			return
		}
		if fr, err := frame.ParseTransport(b); err == nil {
			q := labeller.QP{Dst: fr.Destination(), Num: fr.BTH().DestQP()}
			a := labeller.Assignment{QP: q, Label: fabric.Label(label & 0x3fff)}
			if err := errors.Join(tg.Set(a), in.Set(a)); err != nil {
				t.Fatal(err)
			}
			defer tg.Clear(q)
		}
		out := make([]byte, len(b)+256)
		run := &ebpf.RunOptions{Data: b, DataOut: out}
		if _, err := tg.o.Program.Run(run); errors.Is(err, syscall.EINVAL) {
			return // the test run wants a whole Ethernet and IP header
		} else if err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(b)
		r := in.Rewrite(want)
		if !bytes.Equal(run.DataOut, want) {
			t.Fatalf("%v: the kernel and Inline differ\nframe  %x\nkernel %x\ninline %x", r, b, run.DataOut, want)
		}
	})
}
