package live

import (
	"errors"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// linkFollower calls a function for each change of the network interfaces of some namespaces.
type linkFollower struct {
	each   []*port.Links // by namespace
	poller *port.Poller
	end    chan struct{}
	done   sync.WaitGroup
}

// followLinks begins to call f, with the index of the namespace; never twice at a time. It owns each from now on, and
// ends with close.
func followLinks(each []*port.Links, f func(i int, l port.Link)) (*linkFollower, error) {
	x := &linkFollower{each: each, end: make(chan struct{})}
	var err error
	if x.poller, err = port.NewPoller(); err != nil {
		return nil, errors.Join(err, x.closeFiles())
	}
	for i, l := range each {
		if err := l.Attach(x.poller, i); err != nil {
			return nil, errors.Join(err, x.closeFiles())
		}
	}
	x.done.Go(func() { x.follow(f) })
	return x, nil
}

func (x *linkFollower) follow(f func(i int, l port.Link)) {
	defer port.LockThread()()
	var events []port.Event
	for {
		select {
		case <-x.end:
			return
		default:
		}
		var err error
		if events, err = x.poller.Wait(time.Second, events[:0]); err != nil {
			return
		}
		for _, e := range events {
			x.each[e.ID].Read(func(l port.Link) { f(e.ID, l) }) //nolint:errcheck // what is missed is not measured
		}
	}
}

func (x *linkFollower) closeFiles() (err error) {
	for _, l := range x.each {
		err = errors.Join(err, l.Close())
	}
	if x.poller != nil {
		err = errors.Join(err, x.poller.Close())
	}
	return err
}

func (x *linkFollower) close() {
	close(x.end)
	x.poller.Wake()
	x.done.Wait()
	x.closeFiles() //nolint:errcheck // only read
}

// carrierWatch records when interfaces of the fabric's namespace went down.
type carrierWatch struct {
	*linkFollower
	mu   sync.Mutex
	down map[int]int64 // by interface: ns of CLOCK_MONOTONIC
}

// watchCarriers begins to listen. It ends with close.
func watchCarriers() (*carrierWatch, error) {
	c := &carrierWatch{down: map[int]int64{}}
	links, err := port.OpenLinks()
	if err != nil {
		return nil, err
	}
	c.linkFollower, err = followLinks([]*port.Links{links}, c.changed)
	return c, err
}

func (c *carrierWatch) changed(_ int, l port.Link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, is := c.down[l.Index]; is == l.Up {
		if delete(c.down, l.Index); !l.Up {
			c.down[l.Index] = monotonic.Now()
		}
	}
}

// wentDown returns when an interface went down that is down; 0: not known.
func (c *carrierWatch) wentDown(index int) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down[index]
}
