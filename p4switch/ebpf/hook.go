package ebpf

import (
	"errors"
	"fmt"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// HookKind is a place of the kernel's for programs on an interface's way in.
type HookKind string

// The kinds of hooks.
const (
	HookTCX    HookKind = "tcx"    // Linux 6.6
	HookClsact HookKind = "clsact" // before that
)

// Hook is the place of a program on an interface's way in. No packet runs through a
// program any more when the process that holds it is gone.
type Hook interface {
	Kind() HookKind
	// Run has packets run through a program from now on; nil has them pass.
	Run(s *Switch) error
	// Close gives the place up.
	Close() error
}

// Attach takes a place among an interface's programs, of the calling thread's network
// namespace: TCX, or where the kernel has none of that, clsact. With a kind it
// is that one. Until [Hook.Run] it lets all packets pass. An interface that another switch has is refused: ErrTaken.
func Attach(index int, kind HookKind) (Hook, error) {
	c, err := claimInterface(index)
	if err != nil {
		return nil, err
	}
	h, err := attach(index, kind)
	if err != nil {
		c.release()
		return nil, err
	}
	return &claimed{h, c}, nil
}

// claimed is a hook that no other switch may have.
type claimed struct {
	Hook
	claim claim
}

// Close implements [Hook].
func (h *claimed) Close() error {
	defer h.claim.release()
	return h.Hook.Close()
}

func attach(index int, kind HookKind) (Hook, error) {
	var without error
	if kind != HookClsact {
		h, err := attachTCX(index)
		if err == nil || kind == HookTCX || !errors.Is(err, bpf.ErrNotSupported) {
			return h, err
		}
		without = err
	}
	h, err := attachClsact(index)
	if err != nil {
		return nil, errors.Join(without, err)
	}
	return h, nil
}

// small loads a program of a hook's own.
func small(name string, ins ...asm.Instruction) (*bpf.Program, error) {
	p, err := bpf.NewProgram(&bpf.ProgramSpec{Name: name, Type: bpf.SchedCLS, License: "GPL", Instructions: ins})
	if err != nil {
		return nil, fmt.Errorf("kernel: load a program: %w (root, or CAP_BPF and CAP_NET_ADMIN, is needed)", err)
	}
	return p, nil
}
