package frame

import "testing"

// FuzzParse checks that nothing a frame from outside contains makes a method
// of Frame panic, and that what depends on each other agrees.
func FuzzParse(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add(v.frame[:min(len(v.frame), 256)], uint16(0xC001))
		f.Add(v.frame, uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16) {
		fr, err := ParseHeaders(b)
		if err != nil {
			if _, err := Parse(b); err == nil {
				t.Fatal("Parse accepts what ParseHeaders refuses")
			}
			return
		}
		if fr.PayloadLen() < 0 || fr.HeaderLen() > len(b) || fr.Len() < fr.HeaderLen()+ICRCSize {
			t.Fatalf("headers %d, payload %d, frame %d of %d bytes", fr.HeaderLen(), fr.PayloadLen(), fr.Len(), len(b))
		}
		_, _, _, _ = fr.Source(), fr.Destination(), fr.FlowLabel(), fr.CE()
		_, _, _ = fr.RETH(), fr.AETH(), fr.BTH().Opcode().String()
		fr.Immediate()
		whole := fr.SetICRC()
		if _, err := Parse(b); whole != (err == nil) {
			t.Fatalf("SetICRC %v, but Parse: %v", whole, err)
		}
		fr.SetSourcePort(port)
		fr.SetFlowLabel(FlowLabel(3))
		if whole {
			if err := fr.VerifyICRC(); err != nil {
				t.Fatal(err)
			}
			if len(fr.Payload()) != fr.PayloadLen() {
				t.Fatalf("payload of %d bytes, want %d", len(fr.Payload()), fr.PayloadLen())
			}
		}
	})
}
