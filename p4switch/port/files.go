package port

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/pcap"
)

// Files is a port that receives the frames of NAME_in.pcap and writes what is
// sent to NAME_out.pcap.
type Files struct {
	frames [][]byte
	next   int
	out    *pcapWriter

	inPkts, inOctets, outPkts, outOctets atomic.Uint64
	started                              atomic.Bool
	poller                               *Poller
	id                                   int
}

// OpenFiles reads DIR/NAME_in.pcap completely and creates DIR/NAME_out.pcap. Without an input file the port receives
// nothing. Frames arrive after Start.
func OpenFiles(dir, name string) (*Files, error) {
	p := &Files{}
	path := filepath.Join(dir, name+"_in.pcap")
	f, err := os.Open(path)
	if err == nil {
		p.frames, err = pcap.ReadFrames(bufio.NewReader(f))
		f.Close() //nolint:errcheck // only read
		if err != nil {
			return nil, fmt.Errorf("port: %s: %w", path, err)
		}
	} else if !os.IsNotExist(err) {
		return nil, fmt.Errorf("port: %w", err)
	}
	if p.out, err = createPcap(filepath.Join(dir, name+"_out.pcap")); err != nil {
		return nil, err
	}
	return p, nil
}

// Attach adds the port to a poller, for [Port].
func (p *Files) Attach(poller *Poller, id int) error {
	p.poller, p.id = poller, id
	return nil
}

// Start lets the frames arrive. The port must be attached; any goroutine may
// call it, once.
func (p *Files) Start() {
	p.started.Store(true)
	p.poller.Notify(Event{ID: p.id, In: true})
}

// Receive calls f with the frames that have arrived, up to a limit, for [Port].
func (p *Files) Receive(limit int, f func([]byte)) int {
	n := 0
	if !p.started.Load() {
		return 0
	}
	for n < limit && p.next < len(p.frames) {
		b := p.frames[p.next]
		p.frames[p.next] = nil
		p.next++
		n++
		p.inPkts.Add(1)
		p.inOctets.Add(uint64(len(b)))
		f(b)
	}
	return n
}

// Send sends frames while there is room, and returns the number accepted, for [Port].
func (p *Files) Send(frames [][]byte) int {
	for _, f := range frames {
		p.out.write(time.Now(), f)
		p.outPkts.Add(1)
		p.outOctets.Add(uint64(len(f)))
	}
	p.out.flush()
	return len(frames)
}

// Counters returns the numbers of frames and bytes so far, for [Port].
func (p *Files) Counters() Counters {
	return Counters{InPkts: p.inPkts.Load(), InOctets: p.inOctets.Load(), OutPkts: p.outPkts.Load(), OutOctets: p.outOctets.Load()}
}

// Close frees the port's resources, for [Port].
func (p *Files) Close() error { return p.out.close() }
