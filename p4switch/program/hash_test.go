package program

import (
	"encoding/hex"
	"errors"
	"testing"
)

// The check values of the catalogue of parametrised CRC algorithms: each CRC
// over the digits 1 to 9.
func TestHashCheckValues(t *testing.T) {
	c := &compiler{}
	for name, want := range map[string]uint64{
		"crc32": 0xCBF43926, "crc_32": 0xCBF43926, "crc16": 0xBB3D, "crcCCITT": 0x29B1, "crc_8": 0xF4, "crc_8_itu": 0xA1,
		"crc_8_maxim": 0xA1, "crc_8_rohc": 0xD0, "xmodem": 0x31C3, "modbus": 0x4B37, "kermit": 0x2189, "x_25": 0x906E,
		"crc_16_usb": 0xB4C8, "crc_aug_ccitt": 0xE5CC, "crc_16_dnp": 0xEA82, "crc_32c": 0xE3069283,
		"crc_32_bzip2": 0xFC891918, "crc_32_mpeg": 0x0376E6E7, "jamcrc": 0x340BC6D9, "crc_64_we": 0x62EC59E3F1A4F00A,
		"poly_0x18005_not_rev": 0xFEE8, "poly_0x104c11db7_init_0xffffffff_xout_0xffffffff": 0xCBF43926,
		"identity": 0x3132333435363738, "xxh64": 0x8CB841DB40E6AE83, "xor16": 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900,
		"xor32": 0x31323334 ^ 0x35363738 ^ 0x39000000,
	} {
		h, err := c.hashByName(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := h.Sum([]byte("123456789")); got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
	}
	if _, err := c.hashByName("md5"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("unknown hash: %v", err)
	}
	ip, _ := hex.DecodeString("450000730000400040110000c0a80001c0a800c7")
	if got := InternetChecksum(ip); got != 0xb861 {
		t.Errorf("csum16: %#x", got)
	}
	if got := InternetChecksum([]byte{1, 2, 3}); got != 0xffff-0x0402 {
		t.Errorf("csum16 of an odd length: %#x", got)
	}
}
