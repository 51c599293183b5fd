package interp

import (
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Counters, registers and meters are kept in pages that are made when they
// are first written: most cells of most arrays are never touched.

const (
	pageBits  = 8
	pageCells = 1 << pageBits
)

// pagedArray is an array of size cells of words uint64 each.
type pagedArray struct {
	pages [][]uint64
	size  uint64
	words int
}

// cell returns the words of cell i, nil when its page was never written.
func (a *pagedArray) cell(i uint64) []uint64 {
	pg := i >> pageBits
	if pg >= uint64(len(a.pages)) || a.pages[pg] == nil {
		return nil
	}
	at := int(i&(pageCells-1)) * a.words
	return a.pages[pg][at : at+a.words]
}

// makeCell returns the words of cell i, and allocates its page if necessary.
func (a *pagedArray) makeCell(i uint64) []uint64 {
	pg := int(i >> pageBits)
	if pg >= len(a.pages) {
		grown := make([][]uint64, max(pg+1, min(2*len(a.pages), int((a.size+pageCells-1)>>pageBits))))
		copy(grown, a.pages)
		a.pages = grown
	}
	if a.pages[pg] == nil {
		cells := min(pageCells, int(a.size)-pg<<pageBits)
		a.pages[pg] = make([]uint64, cells*a.words)
	}
	at := int(i&(pageCells-1)) * a.words
	return a.pages[pg][at : at+a.words]
}

// counterArray counts packets and bytes.
type counterArray struct{ pagedArray }

func (c *counterArray) count(i uint64, bytes int) {
	if i >= c.size {
		return
	}
	w := c.cell(i)
	if w == nil {
		w = c.makeCell(i)
	}
	w[0]++
	w[1] += uint64(bytes)
}

// registerArray holds numbers of width bits.
type registerArray struct {
	pagedArray
	width int
	watch func(index, value uint64) // called with each write; may be nil
}

// read copies cell i into dst, masked to width bits; an index out of range
// leaves dst alone.
func (r *registerArray) read(dst []uint64, i uint64, width int) {
	if i >= r.size {
		return
	}
	w := r.cell(i)
	if w == nil {
		clear(dst)
		return
	}
	if r.words == 1 {
		dst[0] = w[0] & program.MaskOf(width)
		return
	}
	copy(dst, w)
	maskWords(dst, width)
}

func (r *registerArray) write(i uint64, src []uint64) {
	if i >= r.size {
		return
	}
	w := r.cell(i)
	if w == nil {
		w = r.makeCell(i)
	}
	copy(w, src)
	maskWords(w, r.width)
	r.notifyWatcher(i, w)
}

func (r *registerArray) notifyWatcher(i uint64, w []uint64) {
	if r.watch != nil {
		r.watch(i, w[0])
	}
}

// meterArray is an array of two-rate three-colour meters.
type meterArray struct {
	cells   map[uint64]*meter
	size    uint64
	packets bool
}

// meter is BMv2's: rate 0 is the larger (peak), whose excess is red; rate 1
// the smaller (committed), whose excess is yellow.
type meter struct {
	cfg    MeterConfig
	rates  [2]meterRate
	origin int64 // ns
}

type meterRate struct {
	perUs  float64 // tokens per microsecond
	burst  uint64
	tokens uint64
	last   uint64 // tokens since the origin, when last looked at
	color  uint8
}

func newMeter(c MeterConfig, now int64) *meter {
	return &meter{cfg: c, origin: now, rates: [2]meterRate{
		{perUs: float64(c.PIR) / 1e6, burst: uint64(c.PBurst), tokens: uint64(c.PBurst), color: 2},
		{perUs: float64(c.CIR) / 1e6, burst: uint64(c.CBurst), tokens: uint64(c.CBurst), color: 1},
	}}
}

// meterPacket meters one packet of n bytes at now.
func (m *meter) meterPacket(packets bool, n int, now int64) uint8 {
	us := max(0, now-m.origin) / 1000
	input := uint64(n)
	if packets {
		input = 1
	}
	for i := range m.rates {
		r := &m.rates[i]
		since := uint64(float64(us) * r.perUs)
		if since > r.last {
			r.tokens = min(r.tokens+(since-r.last), r.burst)
			r.last = since
		}
		if r.tokens < input {
			return r.color
		}
		r.tokens -= input
	}
	return 0
}

// execute meters a packet with cell i; ok is false when there is no cell i.
func (a *meterArray) execute(i uint64, n int, now int64) (color uint8, ok bool) {
	if i >= a.size {
		return 0, false
	}
	m := a.cells[i]
	if m == nil {
		return 0, true // not configured: green
	}
	return m.meterPacket(a.packets, n, now), true
}
