package ebpf

import (
	"errors"
	"fmt"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// clsact is a filter of an interface's clsact queueing discipline. The kernel keeps filters
// when their process is gone, so the filter is a program that goes on in another by an
// array of programs: that the kernel does empty with the last process that holds it.
type clsact struct {
	netlink *netlink.Handle // of the interface's namespace
	filter  *netlink.BpfFilter
	qdisc   *netlink.Clsact // to take away at the end; nil: it was there
	first   *bpf.Program
	next    *bpf.Map
}

// clsactPriority and clsactHandle are where the filter is: that of a process that was killed is replaced.
const (
	clsactPriority = 0xe7e4
	clsactHandle   = 1
)

func attachClsact(index int) (_ Hook, err error) {
	h := &clsact{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("kernel: clsact hook of interface %d: %w", index, errors.Join(err, h.Close()))
		}
	}()
	if h.next, err = bpf.NewMap(&bpf.MapSpec{Name: "next", Type: bpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}); err != nil {
		return nil, fmt.Errorf("%w (root, or CAP_BPF and CAP_NET_ADMIN, is needed)", err)
	}
	h.first, err = loadSmall("first",
		asm.LoadMapPtr(asm.R2, h.next.FD()), asm.Mov.Imm(asm.R3, 0), asm.FnTailCall.Call(), // R1 is the packet
		asm.Mov.Imm(asm.R0, -1), asm.Return(), // TC_ACT_UNSPEC
	)
	if err != nil {
		return nil, err
	}
	if h.netlink, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	switch err := h.netlink.QdiscAdd(qdisc); {
	case err == nil:
		h.qdisc = qdisc
	case !errors.Is(err, unix.EEXIST):
		return nil, err
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: clsactHandle, Priority: clsactPriority, Protocol: unix.ETH_P_ALL,
		},
		Fd: h.first.FD(), Name: "p4switch", DirectAction: true,
	}
	if err := h.netlink.FilterReplace(filter); err != nil {
		return nil, err
	}
	h.filter = filter
	return h, nil
}

// Kind returns the kind of hook, for [Hook].
func (h *clsact) Kind() HookKind { return HookClsact }

// Run makes the kernel run the switch's program for each arriving packet, for [Hook].
func (h *clsact) Run(s *Switch) error {
	var err error
	if s != nil {
		err = h.next.Put(uint32(0), uint32(s.Program().FD()))
	} else if err = h.next.Delete(uint32(0)); errors.Is(err, bpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kernel: clsact hook: %w", err)
	}
	return nil
}

// Close removes the program from the hook, for [Hook]. An interface that is gone took its filters with it.
func (h *clsact) Close() error {
	var errs []error
	if h.filter != nil {
		errs = append(errs, h.netlink.FilterDel(h.filter))
	}
	if h.qdisc != nil {
		errs = append(errs, h.netlink.QdiscDel(h.qdisc))
	}
	for i, err := range errs {
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			errs[i] = nil
		}
	}
	if h.netlink != nil {
		h.netlink.Close()
	}
	if h.first != nil {
		errs = append(errs, h.first.Close())
	}
	if h.next != nil {
		errs = append(errs, h.next.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("kernel: clsact hook: %w", err)
	}
	return nil
}
