package pcap_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/ethereal-fabric/ethereal/internal/pcap"
)

// TestOthersRead: gopacket reads what is written, and what is read is the same.
func TestOthersRead(t *testing.T) {
	var b bytes.Buffer
	w, err := pcap.NewWriter(&b, 64)
	if err != nil {
		t.Fatal(err)
	}
	at, frame := time.Unix(7, 123456789).UTC(), []byte("a frame, cut")
	for range 2 {
		if err := w.Write(at, frame, 1500); err != nil {
			t.Fatal(err)
		}
	}
	frames, err := pcap.ReadFrames(bytes.NewReader(b.Bytes()))
	if err != nil || len(frames) != 2 || !bytes.Equal(frames[1], frame) {
		t.Errorf("%q, %v", frames, err)
	}
	r, err := pcapgo.NewReader(&b)
	if err != nil || r.LinkType() != layers.LinkTypeEthernet || r.Snaplen() != 64 {
		t.Fatal(err)
	}
	data, ci, err := r.ReadPacketData()
	if err != nil || !bytes.Equal(data, frame) || ci.Length != 1500 || !ci.Timestamp.Equal(at) {
		t.Errorf("%q, %+v, %v", data, ci, err)
	}
}

func FuzzReadFrames(f *testing.F) {
	head := []byte{0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0}
	f.Add(head)
	f.Add(append(bytes.Clone(head), 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 'h', 'i'))
	f.Add(append(bytes.Clone(head), 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 'h', 'i'))
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, err := pcap.ReadFrames(bytes.NewReader(b))
		n := 24
		for _, fr := range frames {
			n += 16 + len(fr)
		}
		if err == nil && n != len(b) {
			t.Errorf("%d of %d bytes were understood without an error", n, len(b))
		}
	})
}
