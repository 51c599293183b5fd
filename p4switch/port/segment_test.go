package port

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// superFrame makes a TCP frame with a payload and options, of IPv4 or IPv6.
func superFrame(v6 bool, payload []byte) []byte {
	f := make([]byte, 12)
	tcp := make([]byte, 32)
	binary.BigEndian.PutUint32(tcp[4:], 1<<32-1000) // the sequence number wraps
	tcp[12], tcp[13] = 8<<4, 0x80|0x10|0x08|0x01    // CWR, ACK, PSH, FIN
	if v6 {
		ip := make([]byte, 40)
		ip[0], ip[6] = 6<<4, 6
		binary.BigEndian.PutUint16(ip[4:], uint16(len(tcp)+len(payload)))
		f = append(append(f, 0x86, 0xdd), ip...)
	} else {
		ip := make([]byte, 20)
		ip[0], ip[9] = 0x45, 6
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(tcp)+len(payload)))
		f = append(append(f, 0x08, 0x00), ip...)
	}
	return append(append(f, tcp...), payload...)
}

// Segments have the payload in order, right lengths, sequence numbers, flags and checksums.
func TestSegment(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		for _, size := range []int{1, 1448, 1449, 5000, 60_000} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(rand.Uint32())
			}
			f, ip := superFrame(v6, payload), 20
			if v6 {
				ip = 40
			}
			var got []byte
			n := segmentTCP(f, 1500, func(b []byte) {
				tcp := b[14+ip:]
				last := len(got)+len(tcp)-32 == size
				if seq := binary.BigEndian.Uint32(tcp[4:]); seq != uint32(1<<32-1000+len(got)) {
					t.Errorf("sequence number %d after %d bytes", seq, len(got))
				}
				want := byte(0x10)
				if len(got) == 0 {
					want |= 0x80
				}
				if last {
					want |= 0x09
				}
				if tcp[13] != want || len(b) > 1514 || !last && len(b) != 1514 {
					t.Errorf("%d bytes with flags %#x, want %#x", len(b), tcp[13], want)
				}
				if c := bytes.Clone(b); !completeChecksum(c) || !bytes.Equal(b, c) {
					t.Error("the TCP checksum is wrong")
				}
				if s := addWords(0, b[14:34]); !v6 && s != 0xffff {
					t.Errorf("the IPv4 checksum is wrong: %#x", s)
				}
				got = append(got, tcp[32:]...)
			})
			if room := 1500 - ip - 32; n != (size+room-1)/room || !bytes.Equal(got, payload) {
				t.Errorf("IPv6 %t, %d bytes: %d segments of %d bytes in all", v6, size, n, len(got))
			}
		}
	}
}

// What is no TCP is not cut, and no frame makes it fail.
func TestSegmentOthers(t *testing.T) {
	f := superFrame(false, make([]byte, 3000))
	udp := bytes.Clone(f)
	udp[23] = 17
	if n := segmentTCP(udp, 1500, func([]byte) {}); n != 0 {
		t.Errorf("UDP: %d segments", n)
	}
	for range 100_000 {
		b := bytes.Clone(f[:rand.IntN(len(f))])
		for range 3 {
			if len(b) > 0 {
				b[rand.IntN(min(len(b), 60))] = byte(rand.Uint32())
			}
		}
		segmentTCP(b, 1500, func([]byte) {})
	}
}
