package port

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Captured is a port that writes what passes to pcap files.
type Captured struct {
	Port
	in, out *pcapWriter
}

// Capture makes a port that writes every frame received and sent through p to
// DIR/NAME_in.pcap and DIR/NAME_out.pcap. They are up to date after each call
// of Receive and Send. When a write fails, for want of space for instance, the
// capture ends, traffic goes on, and Close tells.
func Capture(p Port, dir, name string) (*Captured, error) {
	in, err := createPcap(filepath.Join(dir, name+"_in.pcap"))
	if err != nil {
		return nil, err
	}
	out, err := createPcap(filepath.Join(dir, name+"_out.pcap"))
	if err != nil {
		in.close() //nolint:errcheck // the first error is reported
		return nil, err
	}
	return &Captured{Port: p, in: in, out: out}, nil
}

// Receive implements [Port].
func (c *Captured) Receive(limit int, f func([]byte)) int {
	n := c.Port.Receive(limit, func(frame []byte) {
		c.in.write(frame)
		f(frame)
	})
	if n > 0 {
		c.in.flush()
	}
	return n
}

// Send implements [Port].
func (c *Captured) Send(frames [][]byte) int {
	n := c.Port.Send(frames)
	for _, f := range frames[:n] {
		c.out.write(f)
	}
	if n > 0 {
		c.out.flush()
	}
	return n
}

// Close implements [Port].
func (c *Captured) Close() error {
	return errors.Join(c.Port.Close(), c.in.close(), c.out.close())
}

// pcapWriter writes a pcap file with nanosecond times.
type pcapWriter struct {
	f   *os.File
	w   *bufio.Writer
	err error
}

const (
	pcapMagic     = 0xa1b2c3d4 // microseconds
	pcapMagicNano = 0xa1b23c4d
	pcapSnap      = 262144
	linkEthernet  = 1
)

func createPcap(name string) (*pcapWriter, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("port: capture: %w", err)
	}
	w := &pcapWriter{f: f, w: bufio.NewWriterSize(f, 64<<10)}
	b := binary.LittleEndian.AppendUint32(nil, pcapMagicNano)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = binary.LittleEndian.AppendUint32(b, pcapSnap)
	b = binary.LittleEndian.AppendUint32(b, linkEthernet)
	_, w.err = w.w.Write(b)
	w.flush()
	return w, nil
}

func (w *pcapWriter) write(frame []byte) {
	if w.err != nil {
		return
	}
	now := time.Now()
	var h [16]byte
	binary.LittleEndian.PutUint32(h[0:], uint32(now.Unix()))
	binary.LittleEndian.PutUint32(h[4:], uint32(now.Nanosecond()))
	binary.LittleEndian.PutUint32(h[8:], uint32(len(frame)))
	binary.LittleEndian.PutUint32(h[12:], uint32(len(frame)))
	if _, w.err = w.w.Write(h[:]); w.err == nil {
		_, w.err = w.w.Write(frame)
	}
}

func (w *pcapWriter) flush() {
	if w.err == nil {
		w.err = w.w.Flush()
	}
}

func (w *pcapWriter) close() error {
	if w.f == nil {
		return nil
	}
	w.flush()
	err := errors.Join(w.err, w.f.Close())
	w.f = nil
	if err != nil {
		return fmt.Errorf("port: capture: %w", err)
	}
	return nil
}

// readPcap reads the frames of a pcap file.
func readPcap(r io.Reader) ([][]byte, error) {
	in := bufio.NewReader(r)
	var head [24]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, fmt.Errorf("pcap header: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch m := order.Uint32(head[:]); m {
	case pcapMagic, pcapMagicNano:
	default:
		order = binary.BigEndian
		if m := order.Uint32(head[:]); m != pcapMagic && m != pcapMagicNano {
			return nil, fmt.Errorf("magic number %#x is not pcap's", m)
		}
	}
	if l := order.Uint32(head[20:]) & 0xffff; l != linkEthernet {
		return nil, fmt.Errorf("link type %d is not Ethernet", l)
	}
	var out [][]byte
	for {
		var h [16]byte
		if _, err := io.ReadFull(in, h[:]); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("frame %d: %w", len(out)+1, err)
		}
		n := order.Uint32(h[8:])
		if n > pcapSnap {
			return nil, fmt.Errorf("frame %d has %d bytes; at most %d are read", len(out)+1, n, pcapSnap)
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(in, frame); err != nil {
			return nil, fmt.Errorf("frame %d: %w", len(out)+1, err)
		}
		out = append(out, frame)
	}
}
