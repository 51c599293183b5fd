// Package pcap writes and reads capture files of Ethernet frames in libpcap's format, version 2.4.
package pcap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

const (
	nanoseconds  = 0xA1B23C4D // the first four bytes of a file with times in nanoseconds, in the byte order of all its numbers
	microseconds = 0xA1B2C3D4
	ethernet     = 1 // link type of the file: LINKTYPE_ETHERNET
	version      = 2<<16 | 4

	// MaxFrame is the largest number of bytes of a frame in a pcap file.
	MaxFrame = 262144
)

// Writer writes a pcap file with times in ns.
type Writer struct {
	w    io.Writer
	head [16]byte
}

// NewWriter writes the header of a pcap file whose frames have at most snap bytes.
func NewWriter(w io.Writer, snap int) (*Writer, error) {
	var head [24]byte
	binary.LittleEndian.PutUint32(head[0:], nanoseconds)
	binary.LittleEndian.PutUint16(head[4:], version>>16)
	binary.LittleEndian.PutUint16(head[6:], version&0xFFFF)
	binary.LittleEndian.PutUint32(head[16:], uint32(snap))
	binary.LittleEndian.PutUint32(head[20:], ethernet)
	_, err := w.Write(head[:])
	return &Writer{w: w}, err
}

// Write writes a frame: its first bytes, and its length on the wire. A time must be in the years 1970 to 2106.
func (w *Writer) Write(at time.Time, kept []byte, length int) error {
	binary.LittleEndian.PutUint32(w.head[0:], uint32(at.Unix()))
	binary.LittleEndian.PutUint32(w.head[4:], uint32(at.Nanosecond()))
	binary.LittleEndian.PutUint32(w.head[8:], uint32(len(kept)))
	binary.LittleEndian.PutUint32(w.head[12:], uint32(length))
	if _, err := w.w.Write(w.head[:]); err != nil {
		return err
	}
	_, err := w.w.Write(kept)
	return err
}

// ReadFrames reads the frames of a pcap file of either byte order. It never panics, whatever the bytes.
func ReadFrames(r io.Reader) ([][]byte, error) {
	var head [24]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("pcap header: %w", err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if m := order.Uint32(head[:]); m != nanoseconds && m != microseconds {
		order = binary.BigEndian
	}
	if m := order.Uint32(head[:]); m != nanoseconds && m != microseconds {
		return nil, fmt.Errorf("pcap header: it begins with %x, as no capture file does", head[:4])
	}
	if major, minor := order.Uint16(head[4:]), order.Uint16(head[6:]); major != version>>16 || minor != version&0xFFFF {
		return nil, fmt.Errorf("pcap header: version %d.%d is not 2.4", major, minor)
	}
	if l := order.Uint32(head[20:]); l != ethernet {
		return nil, fmt.Errorf("link type %d is not Ethernet", l)
	}
	var out [][]byte
	for {
		_, err := io.ReadFull(r, head[:16])
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		kept, length := order.Uint32(head[8:]), order.Uint32(head[12:])
		var frame []byte
		if err == nil && (kept > MaxFrame || kept > length || length > math.MaxInt32) {
			err = fmt.Errorf("%d of %d bytes; at most %d", kept, length, MaxFrame)
		}
		if err == nil {
			frame = make([]byte, kept)
			if _, err = io.ReadFull(r, frame); errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
		}
		if err != nil {
			return nil, fmt.Errorf("frame %d: %w", len(out)+1, err)
		}
		out = append(out, frame)
	}
}
