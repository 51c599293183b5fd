package tagger

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// Hook is where in the kernel's egress path the eBPF program is attached.
type Hook uint8

// The hooks.
const (
	// AutoHook is TCX if the kernel has it, otherwise Clsact.
	AutoHook Hook = iota
	// TCX is the multi-program hook of Linux 6.6 and up.
	TCX
	// Clsact is a direct-action classifier on the clsact qdisc.
	Clsact
)

// String returns "auto", "tcx" or "clsact".
func (h Hook) String() string {
	switch h {
	case AutoHook:
		return "auto"
	case TCX:
		return "tcx"
	case Clsact:
		return "clsact"
	}
	return fmt.Sprintf("hook_%d", uint8(h))
}

// DefaultQPs is the number of labelled queue pairs if [Config.QPs] is 0.
const DefaultQPs = 1 << 16

// Config sets up a [Tagger].
type Config struct {
	// Interfaces are the names of the Ethernet interfaces whose outgoing packets are labelled, in the calling thread's
	// network namespace.
	Interfaces []string
	// IPv6 is the field that carries the label in IPv6 packets.
	IPv6 labeller.Carrier
	// QPs is the largest number of labelled queue pairs; 0 means DefaultQPs. Each takes about 100 bytes of kernel
	// memory.
	QPs int
	// Hook is where to attach the program.
	Hook Hook
	// PinDir, if set, is a directory on a bpf file system (/sys/fs/bpf/...) that keeps program and labels when the
	// process ends. It is created if necessary.
	PinDir string
}

// Validate returns an error that names the wrong field.
func (c *Config) Validate() error {
	switch {
	case len(c.Interfaces) == 0:
		return fmt.Errorf("%w: tagger: no interfaces: name those whose traffic is to be labelled", labeller.ErrInvalid)
	case slices.Contains(c.Interfaces, ""):
		return fmt.Errorf("%w: tagger: interfaces: one has no name", labeller.ErrInvalid)
	case c.IPv6 > labeller.FlowLabel:
		return fmt.Errorf("%w: tagger: IPv6 carrier %d: it is the source port (0) or the flow label (1)", labeller.ErrInvalid, c.IPv6)
	case c.QPs < 0 || c.QPs > 1<<22:
		return fmt.Errorf("%w: tagger: %d queue pairs: from 1 to %d can have a label", labeller.ErrInvalid, c.QPs, 1<<22)
	case c.Hook > Clsact:
		return fmt.Errorf("%w: tagger: hook %d: it is auto (0), tcx (1) or clsact (2)", labeller.ErrInvalid, c.Hook)
	case c.PinDir != "" && !filepath.IsAbs(c.PinDir):
		return fmt.Errorf("%w: tagger: pin directory %q: it must be an absolute path on a bpf file system", labeller.ErrInvalid, c.PinDir)
	}
	for i, name := range c.Interfaces {
		if slices.Contains(c.Interfaces[:i], name) {
			return fmt.Errorf("%w: tagger: interfaces: %q is there twice", labeller.ErrInvalid, name)
		}
	}
	return nil
}
