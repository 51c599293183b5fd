package port

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/pcap"
)

// Captured is a port whose frames are also written to pcap files.
type Captured struct {
	Port
	files *pcapFiles
}

// Capture returns a port that writes every frame received and sent through p to DIR/NAME_in.pcap and DIR/NAME_out.pcap.
// The files are complete after each call of Receive and Send. If a write fails, the capture ends, traffic continues,
// and Close returns the error.
func Capture(p Port, dir, name string) (*Captured, error) {
	files, err := createPcaps(dir, name)
	if err != nil {
		return nil, err
	}
	return &Captured{Port: p, files: files}, nil
}

// Receive calls f with the frames that have arrived, up to a limit, for [Port].
func (c *Captured) Receive(limit int, f func([]byte)) int {
	n := c.Port.Receive(limit, func(frame []byte) {
		c.files.write(false, time.Now(), frame)
		f(frame)
	})
	if n > 0 {
		c.files.flush()
	}
	return n
}

// Send sends frames while there is room, and returns the number accepted, for [Port].
func (c *Captured) Send(frames [][]byte) int {
	n := c.Port.Send(frames)
	for _, f := range frames[:n] {
		c.files.write(true, time.Now(), f)
	}
	if n > 0 {
		c.files.flush()
	}
	return n
}

// Close frees the port's resources, for [Port].
func (c *Captured) Close() error { return errors.Join(c.Port.Close(), c.files.close()) }

// pcapFiles are the two files of an interface.
type pcapFiles struct{ in, out *pcapWriter }

func createPcaps(dir, name string) (*pcapFiles, error) {
	in, err := createPcap(filepath.Join(dir, name+"_in.pcap"))
	if err != nil {
		return nil, err
	}
	out, err := createPcap(filepath.Join(dir, name+"_out.pcap"))
	if err != nil {
		in.close() //nolint:errcheck // the first error is reported
		return nil, err
	}
	return &pcapFiles{in, out}, nil
}

func (p *pcapFiles) write(sent bool, at time.Time, frame []byte) {
	w := p.in
	if sent {
		w = p.out
	}
	w.write(at, frame)
}

func (p *pcapFiles) flush() { p.in.flush(); p.out.flush() }

func (p *pcapFiles) close() error { return errors.Join(p.in.close(), p.out.close()) }

// pcapWriter writes a pcap file with nanosecond times.
type pcapWriter struct {
	f   *os.File
	buf *bufio.Writer
	w   *pcap.Writer
	err error
}

func createPcap(name string) (*pcapWriter, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("port: capture: %w", err)
	}
	w := &pcapWriter{f: f, buf: bufio.NewWriterSize(f, 64<<10)}
	w.w, w.err = pcap.NewWriter(w.buf, pcap.MaxFrame)
	w.flush()
	return w, nil
}

func (w *pcapWriter) write(at time.Time, frame []byte) {
	if w.err == nil {
		w.err = w.w.Write(at, frame, len(frame))
	}
}

func (w *pcapWriter) flush() {
	if w.err == nil {
		w.err = w.buf.Flush()
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
