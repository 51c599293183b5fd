package live

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Of a fabric on several machines a link to another is a tunnel, whose end is an interface here.

// connectTunnel takes a link's end into use whose other end is on another machine.
func (x *Fabric) connectTunnel(ctx context.Context, l *fabric.Link) error {
	end, own := 0, l.A
	if !x.here(own.Node) {
		end, own = 1, l.B
	}
	w := &wire{ns: x.handle, name: InterfaceName(x.f, own), rate: x.rate(l)}
	err := WaitFor(ctx, StartLimit, w.name+" is there", func() (bool, error) {
		link, err := w.ns.LinkByName(w.name)
		if err != nil {
			return false, err
		}
		w.index = link.Attrs().Index
		return true, nil
	})
	if err != nil {
		return err
	}
	x.wires[l.ID][end] = w
	return errors.Join(w.shape(x.mtu), w.setUp(true))
}

// setCarrier gives this end of a tunnel a carrier, or none. A tunnel has one whatever is with its other end.
func (x *Fabric) setCarrier(id fabric.LinkID, up bool) error {
	if int(id) < 0 || int(id) >= len(x.wires) {
		return fmt.Errorf("live: there is no link %d", id)
	}
	for _, w := range x.wires[id] {
		if w == nil {
			continue
		}
		err := x.thread.Do(func() error {
			req := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_ACK)
			msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
			msg.Index = int32(w.index)
			req.AddData(msg)
			down := byte(1)
			if up {
				down = 0
			}
			req.AddData(nl.NewRtAttr(unix.IFLA_PROTO_DOWN, []byte{down}))
			_, err := req.Execute(unix.NETLINK_ROUTE, 0)
			return err
		})
		if err != nil {
			return fmt.Errorf("live: %s: carrier: %w", w.name, err)
		}
	}
	return nil
}

// Cable is news of an end of a link between machines: its interface was taken down, or up.
type Cable struct {
	Link fabric.LinkID `json:"link"`
	Up   bool          `json:"up"`
}

// WatchCables reports the ends of links that are here until ctx ends. When the kernel's event queue overflowed, and it
// could not keep, it is asked for all once more.
func (x *Fabric) WatchCables(ctx context.Context, links []fabric.LinkID, notify func(Cable) error) error {
	ends := map[int32]Cable{}
	for _, id := range links {
		for _, w := range x.wires[id] {
			if w != nil {
				ends[int32(w.index)] = Cable{id, true}
			}
		}
	}
	for again := false; ; again = true {
		if err := x.watchLinks(ctx, ends, again, notify); !errors.Is(err, unix.ENOBUFS) {
			return err
		}
		x.cfg.Log.Warn("the kernel's queue of link events overflowed: all links are read again")
	}
}

// watchLinks reports those ends that change, and first, if all is set, of those that have changed meanwhile.
func (x *Fabric) watchLinks(ctx context.Context, ends map[int32]Cable, all bool, notify func(Cable) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	news := make(chan netlink.LinkUpdate, 256)
	err := x.thread.Do(func() error {
		return netlink.LinkSubscribeWithOptions(news, ctx.Done(), netlink.LinkSubscribeOptions{ListExisting: all, ErrorCallback: func(err error) {
			cancel(fmt.Errorf("live: netlink: %w", err))
		}})
	})
	if err != nil {
		return fmt.Errorf("live: netlink: %w", err)
	}
	defer func() {
		go func() {
			for range news { // its goroutine ends when it can say no more
				continue
			}
		}()
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case u := <-news:
			was, ok := ends[u.Index]
			if up := u.Flags&unix.IFF_UP != 0; ok && up != was.Up {
				was.Up = up
				ends[u.Index] = was
				if err := notify(was); err != nil {
					return err
				}
			}
		}
	}
}
