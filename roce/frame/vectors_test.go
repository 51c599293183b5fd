package frame

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type vector struct {
	name  string
	frame []byte
}

// vectors reads the frames whose ICRC others computed; testdata says who.
func vectors(t testing.TB) []vector {
	t.Helper()
	var vs []vector
	for _, file := range []string{"icrc.txt", "captured.txt"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			name, digits, ok := strings.Cut(lines.Text(), " ")
			if !ok || name == "#" {
				continue
			}
			frame, err := hex.DecodeString(digits)
			if err != nil {
				t.Fatalf("%s: %s: %v", file, name, err)
			}
			vs = append(vs, vector{name, frame})
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if len(vs) != 49 {
		t.Fatalf("read %d vectors, want 49", len(vs))
	}
	return vs
}

func mustParse(t testing.TB, b []byte) Frame {
	t.Helper()
	f, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestICRCVectors(t *testing.T) {
	for _, v := range vectors(t) {
		f := mustParse(t, v.frame)
		if err := f.VerifyICRC(); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		stored, _ := f.StoredICRC()
		PutICRC(v.frame[f.Len()-ICRCSize:], ^stored)
		if err := f.VerifyICRC(); !errors.Is(err, ErrICRC) {
			t.Errorf("%s: inverted ICRC: got error %v, want ErrICRC", v.name, err)
		}
		if f.SetICRC(); !bytes.Equal(v.frame[f.Len()-ICRCSize:f.Len()], le(stored)) {
			t.Errorf("%s: SetICRC did not restore the ICRC", v.name)
		}
	}
}

func le(v uint32) []byte {
	b := make([]byte, ICRCSize)
	PutICRC(b, v)
	return b
}

// TestICRCCoverage changes every header byte in turn: the ICRC must notice,
// except for the bytes that routers may change.
func TestICRCCoverage(t *testing.T) {
	for _, v := range vectors(t) {
		f := mustParse(t, v.frame)
		want, _ := f.ICRC()
		masked := map[int]byte{f.udp + 6: 0xff, f.udp + 7: 0xff, f.bth + 4: 0xff}
		if f.IPv6() {
			masked[f.ip], masked[f.ip+1], masked[f.ip+2], masked[f.ip+3] = 0x0f, 0xff, 0xff, 0xff
			masked[f.ip+7] = 0xff
		} else {
			masked[f.ip+1], masked[f.ip+8], masked[f.ip+10], masked[f.ip+11] = 0xff, 0xff, 0xff, 0xff
		}
		for at := f.ip; at < f.payload; at++ {
			for bit := byte(1); bit != 0; bit <<= 1 {
				v.frame[at] ^= bit
				got, _ := f.ICRC()
				v.frame[at] ^= bit
				if same := masked[at]&bit != 0; same != (got == want) {
					t.Errorf("%s: byte %d bit %#02x: ICRC unchanged: %v, want %v", v.name, at-f.ip, bit, got == want, same)
				}
			}
		}
	}
}

func TestVectorFields(t *testing.T) {
	for _, v := range vectors(t) {
		f := mustParse(t, v.frame)
		op := f.BTH().Opcode()
		switch {
		case strings.HasSuffix(v.name, "-ack"):
			if a := f.AETH(); a == nil || !a.Syndrome().IsACK() || a.MSN() != 77 || op != Acknowledge {
				t.Errorf("%s: AETH %x of %v, want an ACK with MSN 77", v.name, a, op)
			}
		case strings.HasSuffix(v.name, "-nak"):
			if a := f.AETH(); a.Syndrome() != NAKSequenceError || !a.Syndrome().IsNAK() || a.MSN() != 1 {
				t.Errorf("%s: AETH %x, want a sequence-error NAK with MSN 1", v.name, a)
			}
		case strings.HasSuffix(v.name, "cnp"):
			if !f.BTH().BECN() || op != CNP || !op.Control() || f.PayloadLen() != 0 {
				t.Errorf("%s: %v, payload %d; want a CNP with BECN and no payload", v.name, op, f.PayloadLen())
			}
		case strings.HasSuffix(v.name, "-write-only"):
			if r := f.RETH(); r == nil || r.Length() != 64 || f.PayloadLen() != 64 || !f.BTH().AckRequest() {
				t.Errorf("%s: RETH %x, payload %d; want 64 bytes, acknowledge requested", v.name, r, f.PayloadLen())
			}
		case strings.HasSuffix(v.name, "-last-pad3"):
			if f.PayloadLen() != 4093 || f.BTH().Pad() != 3 || len(f.Payload()) != 4093 {
				t.Errorf("%s: payload %d pad %d, want 4093 and 3", v.name, f.PayloadLen(), f.BTH().Pad())
			}
		case strings.HasSuffix(v.name, "-immediate"):
			if _, ok := f.Immediate(); !ok || f.PayloadLen() != 16 {
				t.Errorf("%s: immediate %v, payload %d; want it and 16", v.name, ok, f.PayloadLen())
			}
		}
	}
}
