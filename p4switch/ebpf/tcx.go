package ebpf

import (
	"fmt"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// tcx is a link, which the kernel drops with the process that holds it.
type tcx struct {
	link link.Link
	pass *bpf.Program
}

func attachTCX(index int) (Hook, error) {
	pass, err := loadSmall("pass", asm.Mov.Imm(asm.R0, -1), asm.Return()) // TCX_NEXT
	if err != nil {
		return nil, err
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: pass, Attach: bpf.AttachTCXIngress})
	if err != nil {
		pass.Close() //nolint:errcheck // the first error is reported
		return nil, fmt.Errorf("kernel: TCX hook of interface %d: %w (Linux 6.6 is needed)", index, err)
	}
	return &tcx{l, pass}, nil
}

// Kind returns the kind of hook, for [Hook].
func (h *tcx) Kind() HookKind { return HookTCX }

// Run makes the kernel run the switch's program for each arriving packet, for [Hook].
func (h *tcx) Run(s *Switch) error {
	p := h.pass
	if s != nil {
		p = s.Program()
	}
	if err := h.link.Update(p); err != nil {
		return fmt.Errorf("kernel: TCX hook: %w", err)
	}
	return nil
}

// Close removes the program from the hook, for [Hook].
func (h *tcx) Close() error {
	err := h.link.Close()
	h.pass.Close() //nolint:errcheck // nothing is pending
	if err != nil {
		return fmt.Errorf("kernel: TCX hook: %w", err)
	}
	return nil
}
