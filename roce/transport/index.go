package transport

import "math/bits"

// hashIndex maps uint64 keys to int32 values: an open-addressing hash table, since every packet needs a lookup. The
// zero value is empty.
type hashIndex struct {
	cells []hashCell // a power of two of them, at most 3/4 full
	used  int
	shift uint
}

type hashCell struct {
	key   uint64
	value int32 // + 1; 0 is an empty cell
}

const indexMultiplier = 0x9e3779b97f4a7c15

func (x *hashIndex) homeCell(key uint64) int { return int(key * indexMultiplier >> x.shift) }

// get returns the value under key, or -1.
func (x *hashIndex) get(key uint64) int32 {
	if len(x.cells) == 0 {
		return -1
	}
	for i := x.homeCell(key); ; i = (i + 1) & (len(x.cells) - 1) {
		c := x.cells[i]
		if c.key == key || c.value == 0 {
			return c.value - 1
		}
	}
}

// put sets the value under a key that is not there yet.
func (x *hashIndex) put(key uint64, value int32) {
	if 4*(x.used+1) > 3*len(x.cells) {
		x.grow()
	}
	x.used++
	i := x.homeCell(key)
	for x.cells[i].value != 0 {
		i = (i + 1) & (len(x.cells) - 1)
	}
	x.cells[i] = hashCell{key, value + 1}
}

// remove deletes a key, closing the gap so that no tombstones stay behind.
func (x *hashIndex) remove(key uint64) {
	if x.get(key) < 0 {
		return
	}
	mask := len(x.cells) - 1
	i := x.homeCell(key)
	for x.cells[i].key != key {
		i = (i + 1) & mask
	}
	x.used--
	for j := i; ; {
		j = (j + 1) & mask
		c := x.cells[j]
		if c.value == 0 {
			break
		}
		// c may move to i unless its home lies after i, up to j.
		if home := x.homeCell(c.key); (j-home)&mask >= (j-i)&mask {
			x.cells[i] = c
			i = j
		}
	}
	x.cells[i] = hashCell{}
}

func (x *hashIndex) grow() {
	old := x.cells
	x.cells = make([]hashCell, max(8, 2*len(old)))
	x.shift = uint(64 - bits.TrailingZeros(uint(len(x.cells))))
	for _, c := range old {
		if c.value == 0 {
			continue
		}
		i := x.homeCell(c.key)
		for x.cells[i].value != 0 {
			i = (i + 1) & (len(x.cells) - 1)
		}
		x.cells[i] = c
	}
}
