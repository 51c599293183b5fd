package live

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/usid"
)

// HostInterface is the name of a host's interface, in its own namespace.
const HostInterface = "eth0"

// InterfaceName returns the name of a switch's port in the fabric's namespace:
// "tor0-1".
func InterfaceName(f *fabric.Fabric, e fabric.End) string {
	return fmt.Sprintf("%s-%d", f.Name(e.Node), e.Port)
}

// wire is one end of a link.
type wire struct {
	ns     *netlink.Handle // of its namespace
	index  int
	name   string
	rate   fabric.Rate
	handle uint16 // of the root queueing discipline there is
	silent bool   // it swallows what is sent
}

// MTU returns the MTU of links for packets of that payload, with or without an outer header. It is at least 1500, as
// programs expect.
func MTU(payload int) int { return max(1500, payload+headroom+usid.HeaderSize) }

// queueTime bounds what waits below the switches' own queues, in time at the
// link's rate; minQueueBytes bounds it from below, in bytes.
const (
	queueTime     = 50 * fabric.Millisecond
	minQueueBytes = 256 << 10
)

// burst is the size of a limited link's token bucket. The timer that refills it is exact to microseconds.
func burst(rate fabric.Rate, mtu int) int { return max(2*(mtu+14), int(rate/8/1000)) }

// bucketTicks is a bucket in the kernel's measure: the time it takes to fill.
func bucketTicks(bytes int, rate uint64) uint32 {
	return uint32(float64(bytes) / float64(rate) * 1e6 * netlink.TickInUsec())
}

// shape limits an interface's sending rate, or makes it drop everything.
func (w *wire) shape(mtu int) error {
	rate, bucket := uint64(w.rate/8), burst(w.rate, mtu)
	limit := uint32(max(minQueueBytes, int64(w.rate/8)*int64(queueTime)/int64(fabric.Second)))
	if w.silent {
		// A bucket in which no frame fits drops all of them, and counts.
		rate, bucket, limit = 1000, 16, 1
	}
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: w.index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(w.handle+1, 0)},
		Rate:       rate, Buffer: bucketTicks(bucket, rate), Limit: limit,
	}
	// A new one, so that what waited in the old one is gone.
	if err := w.ns.QdiscReplace(q); err != nil {
		return fmt.Errorf("live: %s: token bucket filter: %w", w.name, err)
	}
	w.handle = (w.handle + 1) & 0x7fff
	return w.check(q)
}

// check reads back what shape wrote.
func (w *wire) check(want *netlink.Tbf) error {
	qs, err := w.ns.QdiscList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: w.index}})
	if err != nil {
		return fmt.Errorf("live: %s: read the queueing discipline back: %w", w.name, err)
	}
	for _, q := range qs {
		got, ok := q.(*netlink.Tbf)
		if !ok || got.Parent != netlink.HANDLE_ROOT {
			continue
		}
		if got.Rate != want.Rate || got.Limit != want.Limit || got.Buffer != want.Buffer {
			return fmt.Errorf("live: %s: the kernel has %d B/s, limit %d, bucket %d; asked for %d, %d, %d", w.name,
				got.Rate, got.Limit, got.Buffer, want.Rate, want.Limit, want.Buffer)
		}
		return nil
	}
	return fmt.Errorf("live: %s: the token bucket filter is not there", w.name)
}

// setUp takes the wire's interface up or down.
func (w *wire) setUp(up bool) error {
	link := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: w.index}}
	set := w.ns.LinkSetUp
	if !up {
		set = w.ns.LinkSetDown
	}
	if err := set(link); err != nil {
		return fmt.Errorf("live: %s: %w", w.name, err)
	}
	return nil
}

// isUp reports whether the wire carries packets.
func (w *wire) isUp() (bool, error) {
	l, err := w.ns.LinkByIndex(w.index)
	if err != nil {
		return false, fmt.Errorf("live: %s: %w", w.name, err)
	}
	const want = unix.IFF_UP | unix.IFF_LOWER_UP
	return l.Attrs().RawFlags&want == want && l.Attrs().OperState == netlink.OperUp, nil
}

// connect makes the veth pair of a link.
func (x *Fabric) connect(l *fabric.Link) error {
	at, bt := x.space(l.A.Node), x.space(l.B.Node)
	a := &wire{ns: at.handle, name: InterfaceName(x.f, l.A), rate: x.rate(l)}
	b := &wire{ns: bt.handle, name: InterfaceName(x.f, l.B), rate: x.rate(l)}
	if x.host(l.A.Node) != nil {
		a.name = HostInterface
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.TxQLen = b.name, x.mtu, 1000
	mac := x.f.MAC(l.B.Node)
	attrs.HardwareAddr = net.HardwareAddr(mac[:])
	peer := x.f.MAC(l.A.Node)
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: a.name, PeerMTU: uint32(x.mtu), PeerHardwareAddr: net.HardwareAddr(peer[:]),
		PeerNamespace: netlink.NsFd(at.ns.net),
	}
	if err := b.ns.LinkAdd(veth); err != nil {
		return fmt.Errorf("live: link %s: %w", x.f.LinkName(l.ID), err)
	}
	for _, w := range []*wire{a, b} {
		link, err := w.ns.LinkByName(w.name)
		if err != nil {
			return fmt.Errorf("live: link %s: %w", x.f.LinkName(l.ID), err)
		}
		w.index = link.Attrs().Index
		if err := errors.Join(w.shape(x.mtu), w.setUp(true)); err != nil {
			return err
		}
	}
	x.wires[l.ID] = [2]*wire{a, b}
	return nil
}

// rate returns the rate to which a link is limited.
func (x *Fabric) rate(l *fabric.Link) fabric.Rate { return l.Rate }
