package kernel

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Hook is the place of a program on an interface's way in. The kernel empties it with
// the process that holds it.
type Hook struct {
	link link.Link
	pass *ebpf.Program
}

// Attach takes a place among an interface's programs, of the calling thread's network
// namespace. Until [Hook.Run] it lets all packets pass.
func Attach(index int) (*Hook, error) {
	pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "pass", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}, // TCX_NEXT
	})
	if err != nil {
		return nil, fmt.Errorf("kernel: load a program: %w (root, or CAP_BPF and CAP_NET_ADMIN, is needed)", err)
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: pass, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		pass.Close() //nolint:errcheck // the first error is reported
		return nil, fmt.Errorf("kernel: TCX hook of interface %d: %w (Linux 6.6 is needed)", index, err)
	}
	return &Hook{l, pass}, nil
}

// Run has packets run through a program from now on; nil has them pass.
func (h *Hook) Run(s *Switch) error {
	p := h.pass
	if s != nil {
		p = s.Program()
	}
	if err := h.link.Update(p); err != nil {
		return fmt.Errorf("kernel: TCX hook: %w", err)
	}
	return nil
}

// Close gives the place up.
func (h *Hook) Close() error {
	err := h.link.Close()
	h.pass.Close() //nolint:errcheck // nothing is pending
	if err != nil {
		return fmt.Errorf("kernel: TCX hook: %w", err)
	}
	return nil
}
