package tagger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// device returns an Ethernet interface.
func device(name string) (netlink.Link, error) {
	dev, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("%w: tagger: there is no interface %q", labeller.ErrInvalid, name)
	case err != nil:
		return nil, explain("look for interface "+name, err)
	case dev.Attrs().EncapType != "ether" && dev.Attrs().EncapType != "loopback":
		return nil, fmt.Errorf("%w: tagger: interface %q sends %s frames, not Ethernet", labeller.ErrUnsupported, name, dev.Attrs().EncapType)
	}
	return dev, nil
}

// tcx is the program in an interface's TCX list.
type tcx struct {
	link  link.Link
	pin   string // path, or ""
	taken bool   // from an earlier process
}

// attachTCX attaches the program. If an earlier process left a pinned link, it replaces that link's program without
// a gap.
func attachTCX(p *ebpf.Program, dev netlink.Link, pinDir string) (attachment, error) {
	t := &tcx{}
	if pinDir != "" {
		// Interface names may contain dots, which file names on a bpf file system may not.
		t.pin = filepath.Join(pinDir, "link_"+strings.ReplaceAll(dev.Attrs().Name, ".", "_"))
		ok, err := t.takeOver(p, dev)
		if err != nil || ok {
			return t, err
		}
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Attrs().Index, Program: p, Attach: ebpf.AttachTCXEgress})
	if err != nil {
		return nil, err
	}
	t.link = l
	if t.pin != "" {
		if err := l.Pin(t.pin); err != nil {
			return nil, errors.Join(fmt.Errorf("pin: %w", err), l.Close())
		}
	}
	return t, nil
}

// takeOver replaces the program of a link that an earlier process left. It returns false if there is none at this
// interface.
func (t *tcx) takeOver(p *ebpf.Program, dev netlink.Link) (bool, error) {
	l, err := link.LoadPinnedLink(t.pin, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take over %s: %w", t.pin, err)
	}
	info, err := l.Info()
	if err == nil && info.TCX() != nil && info.TCX().Ifindex == uint32(dev.Attrs().Index) {
		if err := l.Update(p); err != nil {
			return false, errors.Join(fmt.Errorf("take over %s: %w", t.pin, err), l.Close())
		}
		t.link, t.taken = l, true
		return true, nil
	}
	// The link is of an interface that is gone, or has another purpose.
	return false, errors.Join(l.Close(), os.Remove(t.pin))
}

func (t *tcx) fresh() bool { return !t.taken }

func (t *tcx) release() error { return t.link.Close() }

func (t *tcx) detach() error {
	if t.pin != "" {
		if err := ignoreError(t.link.Unpin(), fs.ErrNotExist); err != nil {
			return fmt.Errorf("tagger: unpin %s: %w", t.pin, err)
		}
	}
	return t.link.Close()
}

// Our classifier's position among an interface's: there may be others.
const (
	classifierPriority = 0xe7e
	classifierHandle   = 1
	classifierName     = "ethereal_tagger"
)

// clsact is the program as a classifier.
type clsact struct {
	filter *netlink.BpfFilter
	keep   bool
	taken  bool // from an earlier process
}

func attachClsact(p *ebpf.Program, dev netlink.Link, keep bool) (attachment, error) {
	qdisc := &netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_CLSACT, Handle: netlink.MakeHandle(0xffff, 0)},
		QdiscType:  "clsact",
	}
	// The qdisc stays at the end: others may use it, and an empty one costs nothing.
	if err := ignoreError(netlink.QdiscAdd(qdisc), fs.ErrExist); err != nil {
		return nil, fmt.Errorf("add the clsact qdisc: %w", err)
	}
	taken, err := classifierLeft(dev)
	if err != nil {
		return nil, err
	}
	f := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: dev.Attrs().Index, Parent: netlink.HANDLE_MIN_EGRESS,
			Handle: classifierHandle, Priority: classifierPriority, Protocol: unix.ETH_P_ALL,
		},
		Fd: p.FD(), Name: classifierName, DirectAction: true,
	}
	if err := netlink.FilterReplace(f); err != nil {
		return nil, fmt.Errorf("add the classifier: %w", err)
	}
	return &clsact{f, keep, taken}, nil
}

// classifierLeft reports whether an earlier process left a classifier of ours.
func classifierLeft(dev netlink.Link) (bool, error) {
	fs, err := netlink.FilterList(dev, netlink.HANDLE_MIN_EGRESS)
	if err != nil {
		return false, fmt.Errorf("list the classifiers: %w", err)
	}
	for _, f := range fs {
		if b, ok := f.(*netlink.BpfFilter); ok && b.Priority == classifierPriority && b.Name == classifierName {
			return true, nil
		}
	}
	return false, nil
}

func (c *clsact) fresh() bool { return !c.taken }

func (c *clsact) release() error {
	if c.keep {
		return nil
	}
	return c.detach()
}

func (c *clsact) detach() error {
	err := netlink.FilterDel(c.filter)
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EINVAL) {
		return nil // the classifier, the interface or the qdisc is gone
	}
	if err != nil {
		return fmt.Errorf("tagger: remove the classifier: %w", err)
	}
	return nil
}

// monotonic returns the time on the clock of the program's time stamps.
func monotonic() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano()), err
}
