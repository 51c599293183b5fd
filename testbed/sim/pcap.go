package sim

import (
	"fmt"
	"io"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/pcap"
)

// TapConfig is how a capture is written. The zero value captures whole frames.
type TapConfig struct {
	SnapLen int // bytes kept of a frame; 0: all. The record has the original length, too.

	// Finish, if not nil, is called with each whole frame, whose payload and trailer are zeros, before it is cut to
	// SnapLen. payload is the number of bytes of payload; the trailer is behind them. It fills in what depends on the
	// payload, such as a RoCEv2 ICRC.
	Finish func(frame []byte, payload int)
}

type captureTap struct {
	TapConfig
	w     *pcap.Writer
	frame []byte
}

// Tap writes the packets of both directions of a link to w, as a pcap file with times in ns. A packet's time is when
// its first bit is sent, and it is captured at the sender, so that packets lost on the link are included. An error of w
// ends the run. A link has one tap; a later call replaces it.
func (n *Network) Tap(link fabric.LinkID, w io.Writer, c TapConfig) error {
	if c.SnapLen <= 0 {
		c.SnapLen = MaxPacket
	}
	if len(n.regions) > 1 {
		return fmt.Errorf("%w: Cores: a capture is written by one", ErrConfig)
	}
	file, err := pcap.NewWriter(w, c.SnapLen)
	if err != nil {
		return fmt.Errorf("sim: capture of %s: %w", n.fab.LinkName(link), err)
	}
	t := &captureTap{TapConfig: c, w: file}
	n.dirs[Upward(link)].tap = t
	n.dirs[Downward(link)].tap = t
	return nil
}

// capture writes a packet to a direction's tap.
func (r *region) capture(d *direction, p *packet) {
	t := d.tap
	length := int(p.length)
	if cap(t.frame) < length {
		t.frame = make([]byte, length)
	}
	t.frame = t.frame[:length]
	clear(t.frame[copy(t.frame, p.data[:p.header]):])
	if t.Finish != nil {
		t.Finish(t.frame, int(p.payload))
	}
	at := time.Unix(0, int64(r.now/fabric.Nanosecond))
	if err := t.w.Write(at, t.frame[:min(length, t.SnapLen)], length); err != nil {
		r.fail(fmt.Errorf("sim: capture at %v: %w", r.now, err))
	}
}
