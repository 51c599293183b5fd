package transport

import "math/bits"

// bitWindow is a set of packet numbers, at first empty, of which all below some
// number are in and few above it: a ring of bits that grows. The zero value is
// ready for use.
type bitWindow struct {
	base  int32    // a multiple of 64; all below are in
	words []uint64 // a power of two of them; packet i is in word i/64 mod their number
}

func (w *bitWindow) reset() {
	w.base = 0
	clear(w.words)
}

func (w *bitWindow) word(i int32) *uint64 { return &w.words[int(i>>6)&(len(w.words)-1)] }

// end returns the number from which on there is no room.
func (w *bitWindow) end() int32 { return w.base + int32(64*len(w.words)) }

func (w *bitWindow) has(i int32) bool {
	return i < w.base || i < w.end() && *w.word(i)>>(i&63)&1 != 0
}

func (w *bitWindow) add(i int32) {
	if i < w.base {
		return
	}
	for i >= w.end() {
		w.grow()
	}
	*w.word(i) |= 1 << (i & 63)
}

func (w *bitWindow) grow() {
	old := *w
	w.words = make([]uint64, max(4, 2*len(old.words)))
	for i := old.base; i < old.end(); i += 64 {
		*w.word(i) = *old.word(i)
	}
}

// next returns the first number at or above i that is not in.
func (w *bitWindow) next(i int32) int32 {
	i = max(i, w.base)
	for i < w.end() {
		if free := ^*w.word(i) >> (i & 63); free != 0 {
			return i + int32(bits.TrailingZeros64(free))
		}
		i = i&^63 + 64
	}
	return i
}

// forget drops the numbers below i, which are all in the set.
func (w *bitWindow) forget(i int32) {
	if len(w.words) == 0 {
		w.base = i &^ 63
		return
	}
	for w.base+64 <= i {
		*w.word(w.base) = 0
		w.base += 64
	}
}
