package program

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Hash is one of BMv2's hash algorithms with its parameters.
type Hash struct {
	Kind       HashKind
	CRC        *CRC
	RoundRobin int // index of the counter, of round_robin
}

// HashKind is the family of a [Hash].
type HashKind uint8

// HashCRC32 and the others are the kinds.
const (
	HashCRC32 HashKind = iota
	HashCRC
	HashCsum16
	HashIdentity
	HashXor16
	HashXor32
	hashXXH64
	hashToeplitz
	hashFNV // BMv2's algorithm hash_ex, which is FNV
	HashRoundRobin
)

// CRC computes a CRC of 8, 16, 32 or 64 bits with the parameters of BMv2's crc_custom.
type CRC struct {
	Width      int
	Init       uint64
	XorOut     uint64
	ReflectIn  bool
	ReflectOut bool
	Table      [256]uint64
}

func newCRC(width int, poly, init, xorOut uint64, reflected bool) *CRC {
	t := &CRC{Width: width, Init: init, XorOut: xorOut, ReflectIn: reflected, ReflectOut: reflected}
	top := uint64(1) << (width - 1)
	for i := range t.Table {
		r := uint64(i) << (width - 8)
		for range 8 {
			if r&top != 0 {
				r = r<<1 ^ poly
			} else {
				r <<= 1
			}
		}
		t.Table[i] = r & MaskOf(width)
	}
	return t
}

func (t *CRC) checksum(b []byte) uint64 {
	r := t.Init
	m := MaskOf(t.Width)
	for _, x := range b {
		if t.ReflectIn {
			x = bits.Reverse8(x)
		}
		r = (t.Table[byte(r>>(t.Width-8))^x] ^ r<<8) & m
	}
	if t.ReflectOut {
		r = bits.Reverse64(r) >> (64 - t.Width)
	}
	return (r ^ t.XorOut) & m
}

type crcSpec struct {
	width              int
	poly, init, xorOut uint64
	refl               bool
}

// crcSpecs are the CRCs that BMv2 knows by name.
func crcSpecs() map[string]crcSpec {
	const f16, f32, f64 = 0xffff, 0xffffffff, 0xffffffffffffffff
	return map[string]crcSpec{
		"crc16":       {16, 0x8005, 0, 0, true},
		"crcCCITT":    {16, 0x1021, f16, 0, false},
		"crc8_custom": {8, 0x07, 0, 0, false}, "crc16_custom": {16, 0x8005, 0, 0, true},
		"crc32_custom": {32, 0x04c11db7, f32, f32, true}, "crc64_custom": {64, 0x1b, 0, 0, true},

		"crc_8": {8, 0x07, 0, 0, false}, "crc_8_darc": {8, 0x39, 0, 0, true},
		"crc_8_i_code": {8, 0x1d, 0xfd, 0, false}, "crc_8_itu": {8, 0x07, 0, 0x55, false},
		"crc_8_maxim": {8, 0x31, 0, 0, true}, "crc_8_rohc": {8, 0x07, 0xff, 0, true},
		"crc_8_wcdma": {8, 0x9b, 0, 0, true},

		"crc_16": {16, 0x8005, 0, 0, true}, "crc_16_buypass": {16, 0x8005, 0, 0, false},
		"crc_16_dds_110": {16, 0x8005, 0x800d, 0, false}, "crc_16_dect": {16, 0x0589, 0, 1, false},
		"crc_16_dnp": {16, 0x3d65, 0, f16, true}, "crc_16_en_13757": {16, 0x3d65, 0, f16, false},
		"crc_16_genibus": {16, 0x1021, f16, f16, false}, "crc_16_maxim": {16, 0x8005, 0, f16, true},
		"crc_16_mcrf4xx": {16, 0x1021, f16, 0, true}, "crc_16_riello": {16, 0x1021, 0xb2aa, 0, true},
		"crc_16_t10_dif": {16, 0x8bb7, 0, 0, false}, "crc_16_teledisk": {16, 0xa097, 0, 0, false},
		"crc_16_usb": {16, 0x8005, f16, f16, true}, "x_25": {16, 0x1021, f16, f16, true},
		"xmodem": {16, 0x1021, 0, 0, false}, "modbus": {16, 0x8005, f16, 0, true},
		"kermit": {16, 0x1021, 0, 0, true}, "crc_ccitt_false": {16, 0x1021, f16, 0, false},
		"crc_aug_ccitt": {16, 0x1021, 0x1d0f, 0, false},

		"crc_32": {32, 0x04c11db7, f32, f32, true}, "crc_32_bzip2": {32, 0x04c11db7, f32, f32, false},
		"crc_32c": {32, 0x1edc6f41, f32, f32, true}, "crc_32d": {32, 0xa833982b, f32, f32, true},
		"crc_32_mpeg": {32, 0x04c11db7, f32, 0, false}, "posix": {32, 0x04c11db7, 0, f32, false},
		"crc_32q": {32, 0x814141ab, 0, 0, false}, "jamcrc": {32, 0x04c11db7, f32, 0, true},
		"xfer": {32, 0x000000af, 0, 0, false},

		"crc_64": {64, 0x1b, 0, 0, true}, "crc_64_we": {64, 0x42f0e1eba9ea3693, f64, f64, false},
		"crc_64_jones": {64, 0xad93d23594c935a9, f64, 0, true},
	}
}

// customCRC reads names such as poly_0x104c11db7_init_0x0_not_rev.
func customCRC(name string) (crcSpec, bool) {
	s := crcSpec{refl: true}
	tok := strings.Split(name, "_")
	num := func(t string) (uint64, bool) {
		v, err := strconv.ParseUint(strings.TrimPrefix(t, "0x"), 16, 64)
		return v, err == nil
	}
	for i := 0; i < len(tok); i += 2 {
		if i+1 >= len(tok) {
			return s, false
		}
		var ok bool
		switch tok[i] {
		case "poly": // 0x1 and then the polynomial, whose digits say how wide it is
			d, cut := strings.CutPrefix(tok[i+1], "0x1")
			s.width = len(d) * 4
			s.poly, ok = num(d)
			ok = ok && cut && (s.width == 8 || s.width == 16 || s.width == 32 || s.width == 64)
		case "init":
			s.init, ok = num(tok[i+1])
		case "xout":
			s.xorOut, ok = num(tok[i+1])
		case "not":
			s.refl, ok = false, tok[i+1] == "rev"
		default:
			ok = false
		}
		if !ok {
			return s, false
		}
	}
	return s, s.width != 0
}

func (c *compiler) hashByName(name string) (Hash, error) {
	switch name {
	case "crc32":
		return Hash{Kind: HashCRC32}, nil
	case "csum16", "cksum16":
		return Hash{Kind: HashCsum16}, nil
	case "identity":
		return Hash{Kind: HashIdentity}, nil
	case "xor16":
		return Hash{Kind: HashXor16}, nil
	case "xor32":
		return Hash{Kind: HashXor32}, nil
	case "xxh64", "bmv2_hash":
		return Hash{Kind: hashXXH64}, nil
	case "hash_ex":
		return Hash{Kind: hashFNV}, nil
	case "toeplitz":
		return Hash{Kind: hashToeplitz}, nil
	case "round_robin":
		c.roundRobins++
		return Hash{Kind: HashRoundRobin, RoundRobin: c.roundRobins - 1}, nil
	}
	s, ok := crcSpecs()[name]
	if !ok {
		if s, ok = customCRC(name); !ok {
			return Hash{}, fmt.Errorf("%w: hash algorithm %q", ErrUnsupported, name)
		}
	}
	return Hash{Kind: HashCRC, CRC: newCRC(s.width, s.poly, s.init, s.xorOut, s.refl)}, nil
}

// Sum returns the hash of b. Do not call it for round_robin, whose counter is in the switch.
func (h *Hash) Sum(b []byte) uint64 {
	switch h.Kind {
	case HashCRC32:
		return uint64(crc32.ChecksumIEEE(b))
	case HashCRC:
		return h.CRC.checksum(b)
	case HashCsum16:
		return InternetChecksum(b)
	case HashIdentity:
		var v uint64
		for _, x := range b[:min(8, len(b))] {
			v = v<<8 | uint64(x)
		}
		return v
	case HashXor16:
		return xorFold(b, 2)
	case HashXor32:
		return xorFold(b, 4)
	case hashXXH64:
		return xxhash.Sum64(b)
	case hashFNV:
		return fnvMix(b)
	}
	return 0 // toeplitz with BMv2's initial key of zeros
}

// InternetChecksum returns the Internet checksum (RFC 1071) of b.
func InternetChecksum(b []byte) uint64 {
	var sum uint64
	for len(b) >= 8 {
		v := binary.BigEndian.Uint64(b)
		sum += v>>32 + v&0xffffffff
		b = b[8:]
	}
	if len(b) >= 4 {
		sum += uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		sum += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) > 0 {
		sum += uint64(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^sum & 0xffff
}

// xorFold combines the n-byte words of b, the last padded with zeros.
func xorFold(b []byte, n int) uint64 {
	var v uint64
	for len(b) > 0 {
		var w uint64
		for i := range n {
			w <<= 8
			if i < len(b) {
				w |= uint64(b[i])
			}
		}
		v ^= w
		b = b[min(n, len(b)):]
	}
	return v
}

// fnvMix is simple_switch's hash_ex; bytes count as signed there.
func fnvMix(b []byte) uint64 {
	h := uint32(2166136261)
	for _, x := range b {
		h = (h ^ uint32(int32(int8(x)))) * 16777619
	}
	h += h << 13
	h ^= h >> 7
	h += h << 3
	h ^= h >> 17
	h += h << 5
	return uint64(h)
}
