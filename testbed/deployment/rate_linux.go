package deployment

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// limiter limits the sending rate of network interfaces in this network namespace: by a token bucket, or, if
// Mininet's TCLink has already made a class, by that class's rate. It reads the result back from the kernel.
type limiter struct {
	links map[string][]func() error // functions that undo the limits, by name of the fabric's link
}

// set limits the interfaces; 0 ends that.
func (l *limiter) set(name string, interfaces []string, rate fabric.Rate) error {
	if err := l.heal(name); err != nil || rate == 0 {
		return err
	}
	for _, i := range interfaces {
		undo, err := limit(i, uint64(rate)/8)
		if err != nil {
			return errors.Join(fmt.Errorf("a rate of %v on %s: %w", rate, i, err), l.heal(name))
		}
		if l.links == nil {
			l.links = map[string][]func() error{}
		}
		l.links[name] = append(l.links[name], undo)
	}
	return nil
}

// heal ends the limits of a link; of all links if name is empty.
func (l *limiter) heal(name string) error {
	var errs []error
	for n, undo := range l.links {
		if name != "" && n != name {
			continue
		}
		for _, f := range undo {
			errs = append(errs, f())
		}
		delete(l.links, n)
	}
	return errors.Join(errs...)
}

// limit limits one interface to rate, in bytes/s, and returns a function that undoes it.
func limit(name string, rate uint64) (undo func() error, err error) {
	dev, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	disciplines, err := netlink.QdiscList(dev)
	if err != nil {
		return nil, err
	}
	kind := ""
	for _, q := range disciplines {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			kind = q.Type()
		}
	}
	switch kind {
	case "htb":
		return changeClass(dev, rate)
	case "", "noqueue", "pfifo_fast", "fq_codel", "mq": // the kernel's defaults
		return addBucket(dev, rate)
	}
	return nil, fmt.Errorf("its root discipline is %s, which has no rate; give links one from the beginning (--bw)", kind)
}

// bucketMin is the minimum size of a token bucket in bytes: two jumbo frames.
const bucketMin = 2 * 9216

// addBucket puts a token bucket filter at an interface's root. It holds 4 ms; its queue holds half a second, which
// is shorter than a retransmission timer.
func addBucket(dev netlink.Link, rate uint64) (undo func() error, err error) {
	burst := max(bucketMin, rate/250)
	q := &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(0xe7e, 0)},
		Rate:       rate, Limit: uint32(burst + rate/2),
		Buffer: uint32(float64(burst) / float64(rate) * 1e6 * netlink.TickInUsec()), // the time to fill it, in ticks
	}
	if err := netlink.QdiscAdd(q); err != nil {
		return nil, fmt.Errorf("token bucket filter (kernel module sch_tbf): %w", err)
	}
	undo = func() error { return netlink.QdiscDel(q) }
	disciplines, err := netlink.QdiscList(dev)
	for _, x := range disciplines {
		if t, ok := x.(*netlink.Tbf); ok && t.Parent == netlink.HANDLE_ROOT && t.Rate == rate {
			return undo, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("the kernel has no such bucket: %v", disciplines), err, undo())
}

// changeClass changes the rate of a TCLink's class.
func changeClass(dev netlink.Link, rate uint64) (undo func() error, err error) {
	class, err := htbClass(dev)
	if err != nil {
		return nil, err
	}
	was := *class
	undo = func() error { return netlink.ClassChange(&was) }
	now := netlink.NewHtbClass(class.ClassAttrs, netlink.HtbClassAttrs{Rate: rate * 8, Ceil: rate * 8, Buffer: bucketMin, Cbuffer: bucketMin, Prio: class.Prio})
	if err := netlink.ClassChange(now); err != nil {
		return nil, err
	}
	if class, err = htbClass(dev); err != nil {
		return nil, errors.Join(err, undo())
	}
	if class.Rate != rate {
		return nil, errors.Join(fmt.Errorf("the kernel has %v", fabric.Rate(class.Rate*8)), undo())
	}
	return undo, nil
}

// htbClass returns the only class of a TCLink's htb.
func htbClass(dev netlink.Link) (*netlink.HtbClass, error) {
	classes, err := netlink.ClassList(dev, netlink.HANDLE_NONE)
	if err != nil {
		return nil, err
	}
	var found []*netlink.HtbClass
	for _, c := range classes {
		if h, ok := c.(*netlink.HtbClass); ok {
			found = append(found, h)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("its htb has %d classes, a TCLink's one", len(found))
	}
	return found[0], nil
}
