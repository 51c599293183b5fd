package experiment

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// grayer loses packets that leave network interfaces of this network namespace, at
// random, by a small eBPF program: netem, which kernels often lack, is not needed.
type grayer struct {
	links map[string][]link.Link // by name of the fabric's link
}

// set makes the interfaces lose a share of what they send; 0 ends that.
func (g *grayer) set(name string, interfaces []string, loss float64) (err error) {
	if err := g.heal(name); err != nil || loss == 0 {
		return err
	}
	// The share in 65536ths of what a random number's upper half may be.
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gray", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.FnGetPrandomU32.Call(),
			asm.RSh.Imm(asm.R0, 16),
			asm.JLT.Imm(asm.R0, int32(loss*65536), "lose"),
			asm.Mov.Imm(asm.R0, -1), // TCX_NEXT: as if nothing were here
			asm.Return(),
			asm.Mov.Imm(asm.R0, 2).WithSymbol("lose"), // TCX_DROP
			asm.Return(),
		},
	})
	if err != nil {
		return fmt.Errorf("gray loss takes eBPF: %w", err)
	}
	defer program.Close() //nolint:errcheck // the links keep it
	for _, i := range interfaces {
		dev, err := net.InterfaceByName(i)
		if err != nil {
			return fmt.Errorf("%s: %w", i, err)
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: program, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return errors.Join(fmt.Errorf("gray loss on %s takes Linux 6.6: %w", i, err), g.heal(name))
		}
		if g.links == nil {
			g.links = map[string][]link.Link{}
		}
		g.links[name] = append(g.links[name], l)
	}
	return nil
}

// heal ends the losses of a link; of all links if name is empty.
func (g *grayer) heal(name string) error {
	var errs []error
	for n, ls := range g.links {
		if name != "" && n != name {
			continue
		}
		for _, l := range ls {
			errs = append(errs, l.Close())
		}
		delete(g.links, n)
	}
	return errors.Join(errs...)
}
