//go:build linux

package differential

// exception is a sample that cannot be compared on any packet: why, and what
// to do about it.
type exception struct {
	why string
	// mend changes a frame so that what the program does with it is defined,
	// and returns it. It is called for frame after frame. Nil: frames stay.
	mend func(frame []byte) []byte
	// differs: no choice of packets makes the program's output a function of
	// its input.
	differs bool
	// refused: our switch does not take the program.
	refused bool
}

// exceptions says of every sample that is not compared on random frames as
// they come why that is so. Each returns state of its own.
func exceptions() map[string]exception {
	short := func(n int) func([]byte) []byte {
		return func(f []byte) []byte { return pad(f, n) }
	}
	index := 0
	return map[string]exception{
		"flowlet_switching-bmv2": {
			why:     "it picks paths by the time between packets, and the two switches have clocks of their own",
			differs: true,
		},
		"issue1517-bmv2": {
			why:     "it drops by random(), whose numbers are each switch's own",
			differs: true,
		},
		"issue1097-2-bmv2": {
			why: "ingress and egress write one register; BMv2 runs them in threads that overtake each other " +
				"within a batch, so each packet of a batch gets a cell of its own",
			mend: func(f []byte) []byte {
				f = pad(f, 14)
				f[0] = byte(index)
				index++
				return f
			},
		},
		"gauntlet_invalid_hdr_assign-bmv2": {
			why:  "it reads a header that short packets lack, which P4 leaves undefined: BMv2 reads an earlier packet's, we read 0",
			mend: short(64),
		},
		"forloop-bmv2": {
			why: "its loop over bit<8> never ends at a count of 255: BMv2 hangs, we stop and count a drop",
			mend: func(f []byte) []byte {
				f[0] &= 0x7f
				return f
			},
		},
		"issue2726-bmv2":     {why: outside, mend: indexed},
		"runtime-index-bmv2": {why: outside, mend: indexed},
		"runtime-index-2-bmv2": {
			why: outside,
			mend: func(f []byte) []byte {
				f = pad(f, 64)
				f[14] = f[15]>>1 + f[14]&7
				return f
			},
		},
		"issue1607-bmv2": {
			why: "p4c writes hdr.stack.last as field \"last\" of the stack; BMv2 looks that field up, finds none and reads " +
				"the one at offset -1, outside the header; we copy the element",
			differs: true,
		},
		"issue1062-1-bmv2": {
			why:     "a key of type error, which P4Runtime has no encoding for: P4Info gives it a width of 0 bits",
			refused: true,
		},
		"issue2283_1-bmv2": {
			why:     "a port translated to a string of the controller's (sdn_string), for which P4Runtime leaves the mapping to the target",
			refused: true,
		},
	}
}

const outside = "an index from the packet reaches beyond a header stack: BMv2 ends with an exception, we read 0 and write nothing"

// indexed gives a frame for programs with three headers in a stack, indexed
// by the byte after the Ethernet header.
func indexed(f []byte) []byte {
	f = pad(f, 64)
	f[14] %= 3
	return f
}

func pad(f []byte, n int) []byte {
	for len(f) < n {
		f = append(f, byte(len(f)*37))
	}
	return f
}
