package ebpf

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// Queues reads the queueing disciplines of a network namespace's interfaces, as far as they limit the rate: token
// bucket filters (TBF), or the first class of a hierarchical one (HTB), as Mininet's links have. It also reads the
// interfaces' counters.
type Queues struct{ netlink *netlink.Handle }

// OpenQueues opens a reader of the queueing disciplines (tc) of the interfaces in the calling thread's network
// namespace.
func OpenQueues() (*Queues, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("kernel: netlink: %w", err)
	}
	return &Queues{h}, nil
}

// htbQueueBytes is what the queue of an HTB class holds where nothing else is said, in bytes: a
// thousand packets.
const htbQueueBytes = 1000 * 1514

// Read returns the rate and size of the queues by interface index.
func (q *Queues) Read() (map[uint32]Queue, error) {
	disciplines, err := q.netlink.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("kernel: queueing disciplines: %w", err)
	}
	out := map[uint32]Queue{}
	for _, d := range disciplines {
		index := d.Attrs().LinkIndex
		switch d := d.(type) {
		case *netlink.Tbf:
			out[uint32(index)] = Queue{d.Rate, uint64(d.Limit)}
		case *netlink.Htb:
			classes, err := q.netlink.ClassList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}, 0)
			if err != nil {
				return nil, fmt.Errorf("kernel: classes of interface %d: %w", index, err)
			}
			for _, c := range classes {
				if h, ok := c.(*netlink.HtbClass); ok && out[uint32(index)].Rate == 0 {
					out[uint32(index)] = Queue{h.Rate, htbQueueBytes}
				}
			}
		}
	}
	return out, nil
}

// Counters returns an interface's counters.
func (q *Queues) Counters(index int) (c port.Counters, err error) {
	l, err := q.netlink.LinkByIndex(index)
	if err != nil {
		return c, fmt.Errorf("kernel: interface %d: %w", index, err)
	}
	if s := l.Attrs().Statistics; s != nil {
		c = port.Counters{InPkts: s.RxPackets, InOctets: s.RxBytes, OutPkts: s.TxPackets, OutOctets: s.TxBytes}
	}
	return c, nil
}

// Close frees the sockets.
func (q *Queues) Close() { q.netlink.Close() }
