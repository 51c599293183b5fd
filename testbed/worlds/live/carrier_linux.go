package live

import (
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// carriers notes when the kernel says that interfaces of the fabric's namespace
// went down.
type carriers struct {
	links  *port.Links
	poller *port.Poller
	end    chan struct{}
	done   sync.WaitGroup

	mu   sync.Mutex
	down map[int]int64 // by interface: ns of CLOCK_MONOTONIC
}

// watchCarriers begins to listen. It ends with close.
func watchCarriers() (*carriers, error) {
	c := &carriers{end: make(chan struct{}), down: map[int]int64{}}
	var err error
	if c.links, err = port.OpenLinks(); err != nil {
		return nil, err
	}
	if c.poller, err = port.NewPoller(); err == nil {
		err = c.links.Attach(c.poller, 0)
	}
	if err != nil {
		c.links.Close() //nolint:errcheck // the first error is reported
		return nil, err
	}
	c.done.Go(c.listen)
	return c, nil
}

func (c *carriers) listen() {
	defer port.LockThread()()
	var events []port.Event
	for {
		select {
		case <-c.end:
			return
		default:
		}
		var err error
		if events, err = c.poller.Wait(time.Second, events[:0]); err != nil {
			return
		}
		now := monotonic.Now()
		c.mu.Lock()
		c.links.Read(func(l port.Link) { //nolint:errcheck // what is missed is not measured
			if _, is := c.down[l.Index]; is == l.Up {
				if delete(c.down, l.Index); !l.Up {
					c.down[l.Index] = now
				}
			}
		})
		c.mu.Unlock()
	}
}

// wentDown returns when an interface went down that is down; 0: not known.
func (c *carriers) wentDown(index int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down[index]
}

func (c *carriers) close() {
	close(c.end)
	c.poller.Wake()
	c.done.Wait()
	c.links.Close()  //nolint:errcheck // only read
	c.poller.Close() //nolint:errcheck // only read
}
