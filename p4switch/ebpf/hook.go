package ebpf

import (
	"errors"
	"fmt"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// HookKind is where in an interface's ingress path the kernel runs an eBPF program.
type HookKind string

// The kinds of hooks.
const (
	HookTCX    HookKind = "tcx"    // a TCX link, for Linux 6.6 and later
	HookClsact HookKind = "clsact" // a filter of the clsact qdisc, for kernels before Linux 6.6
)

// Hook is a place for an eBPF program in an interface's ingress path. When the process that holds it ends, the kernel
// removes the program.
type Hook interface {
	Kind() HookKind
	// Run makes the kernel run the switch's program for each arriving packet from now on. nil: the kernel lets all
	// packets pass.
	Run(s *Switch) error
	// Close removes the program from the hook.
	Close() error
}

// Attach reserves a place in the ingress path of the interface with that index, in the calling thread's network
// namespace: of the given kind, or of the best available one if kind is empty. Until [Hook.Run] all packets pass. If
// another switch has the interface, the error wraps [ErrTaken].
func Attach(index int, kind HookKind) (Hook, error) {
	c, err := claimInterface(index)
	if err != nil {
		return nil, err
	}
	h, err := attach(index, kind)
	if err != nil {
		c.releaseName()
		return nil, err
	}
	return &ownedHook{h, c}, nil
}

// ownedHook is a hook that this process owns exclusively.
type ownedHook struct {
	Hook
	claim claim
}

// Close removes the program from the hook, for [Hook].
func (h *ownedHook) Close() error {
	defer h.claim.releaseName()
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

// loadSmall loads a small program for a hook.
func loadSmall(name string, ins ...asm.Instruction) (*bpf.Program, error) {
	p, err := bpf.NewProgram(&bpf.ProgramSpec{Name: name, Type: bpf.SchedCLS, License: "GPL", Instructions: ins})
	if err != nil {
		return nil, fmt.Errorf("kernel: load a program: %w (root, or CAP_BPF and CAP_NET_ADMIN, is needed)", err)
	}
	return p, nil
}
