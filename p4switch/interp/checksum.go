package interp

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// bitWriter collects a bit string, first bit first.
type bitWriter struct {
	buf []byte
	acc uint64
	n   uint // bits in acc
}

func (w *bitWriter) reset() {
	w.buf = w.buf[:0]
	w.acc, w.n = 0, 0
}

// appendBits appends the low width bits of v, which has no others; width is 1 to 64.
func (w *bitWriter) appendBits(v uint64, width uint) {
	free := 64 - w.n
	if width < free {
		w.acc = w.acc<<width | v
		w.n += width
		return
	}
	rest := width - free
	a := w.acc<<free | v>>rest
	w.buf = binary.BigEndian.AppendUint64(w.buf, a)
	w.acc, w.n = v&(1<<rest-1), rest
}

// putWords appends the low width bits of a number in words.
func (w *bitWriter) putWords(x []uint64, width int) {
	for i := (width+63)/64 - 1; i >= 0; i-- {
		n := min(width-64*i, 64)
		w.appendBits(x[i]&program.MaskOf(n), uint(n))
	}
}

// flush pads to whole bytes and writes what is left.
func (w *bitWriter) flush() {
	if w.n == 0 {
		return
	}
	a := w.acc << (64 - w.n)
	for n := w.n; ; n -= 8 {
		w.buf = append(w.buf, byte(a>>56))
		a <<= 8
		if n <= 8 {
			break
		}
	}
	w.acc, w.n = 0, 0
}

// appendPatched appends b with the fields in dirty replaced by what the slots hold.
// The writer is at a whole byte.
func (w *bitWriter) appendPatched(b []byte, v []uint64, ps [][]program.Part, dirty uint64) {
	at := len(w.buf)
	w.buf = append(w.buf, b...)
	if dirty == 0 {
		return
	}
	if cap(w.buf)-len(w.buf) < 8 {
		w.buf = slices.Grow(w.buf, 64)
	}
	d := w.buf[at : len(w.buf)+8]
	for ; dirty != 0; dirty &= dirty - 1 {
		f := ps[bits.TrailingZeros64(dirty)]
		for i := range f {
			f := &f[i]
			x := d[f.Byte:]
			o := binary.BigEndian.Uint64(x)
			n := v[f.Slot] >> (f.Right & 63) & f.Mask
			binary.BigEndian.PutUint64(x, o&^(f.Mask<<(f.Shift&63))|n<<(f.Shift&63))
		}
	}
}

// emitHeaders runs steps.
func (s *Switch) emitHeaders(w *bitWriter, v []uint64, steps []program.EmitStep) {
	for i := range steps {
		st := &steps[i]
		if v[st.Guard] == 0 {
			continue
		}
		switch st.Kind {
		case program.EmitField:
			w.appendBits(v[st.Slot], uint(st.Width))
		case program.EmitWide:
			w.putWords(v[st.Slot:], st.Width)
		case program.EmitVar:
			if n := int(v[st.LenSlot]); n > 0 {
				w.putWords(v[st.Slot:], n)
			}
		case program.EmitHeader:
			h := &s.p.Headers[st.Header]
			if h.Meta || v[h.ValidSlot()] != 0 {
				s.emitHeaders(w, v, s.p.Emits[st.Header])
			}
		}
	}
}

// runCalculation runs a calculation over the packet.
func (s *Switch) runCalculation(p *Packet, id int) uint64 {
	ca := &s.p.Calculations[id]
	w := &s.bits
	w.reset()
	s.emitHeaders(w, p.v, ca.Steps)
	w.flush()
	if ca.Payload {
		data, virtual := p.payload()
		w.buf = append(w.buf, data...)
		if ca.Hash.Kind != program.HashCsum16 { // zeros add nothing to a sum
			for range virtual {
				w.buf = append(w.buf, 0)
			}
		}
	}
	return s.runHash(&ca.Hash, w.buf)
}

// runHash runs a calculation's algorithm over b.
func (s *Switch) runHash(h *program.Hash, b []byte) uint64 {
	if h.Kind == program.HashRoundRobin {
		s.roundRobin[h.RoundRobin]++
		return s.roundRobin[h.RoundRobin] - 1
	}
	return h.Sum(b)
}

// verifyChecksums reports whether every checksum that applies is right.
func (s *Switch) verifyChecksums(p *Packet) bool {
	ok := true
	for i := range s.p.Checksums {
		k := &s.p.Checksums[i]
		if !k.Verify || p.v[k.Field.Guard()] == 0 || !s.checksumApplies(p, k) {
			continue
		}
		if s.runCalculation(p, k.Calculation) != p.v[k.Field.Slot()] {
			ok = false
		}
	}
	return ok
}

func (s *Switch) updateChecksums(p *Packet) {
	for i := range s.p.Checksums {
		k := &s.p.Checksums[i]
		if k.Update && !k.Bytes && s.checksumApplies(p, k) {
			p.v[k.Field.Slot()] = s.runCalculation(p, k.Calculation) & program.MaskOf(k.Field.Field.Width)
		}
	}
}

func (s *Switch) checksumApplies(p *Packet, k *program.Checksum) bool {
	if k.Cond != 0 {
		s.runCode(p, k.Cond)
	}
	return p.v[k.Slot] != 0
}
