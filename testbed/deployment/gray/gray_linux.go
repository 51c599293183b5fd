package gray

import (
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// Losses is the links that are made to lose packets. The zero value has none. It is not safe for concurrent use.
type Losses struct {
	links map[string][]link.Link // by name of the fabric's link
}

// minLoss is the smallest nonzero share that the program can express.
const minLoss = 1.0 / 65536

// Set makes the interfaces, in the calling thread's network namespace, lose a share of the packets that they send;
// 0 ends that. After an error none of them loses packets.
func (g *Losses) Set(name string, interfaces []string, loss float64) (err error) {
	if loss != 0 && !(loss >= minLoss && loss <= 1) {
		return fmt.Errorf("gray: loss %v of %s is outside 1/65536 to 1", loss, name)
	}
	if err := g.Heal(name); err != nil || loss == 0 {
		return err
	}
	// The share, in 65536ths, of the values of a random number's upper half.
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "gray", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{
			asm.FnGetPrandomU32.Call(),
			asm.RSh.Imm(asm.R0, 16),
			asm.JLT.Imm(asm.R0, int32(loss*65536), "lose"),
			asm.Mov.Imm(asm.R0, -1), // TCX_NEXT: pass to the next program
			asm.Return(),
			asm.Mov.Imm(asm.R0, 2).WithSymbol("lose"), // TCX_DROP
			asm.Return(),
		},
	})
	if err != nil {
		return fmt.Errorf("gray: loss takes eBPF: %w", err)
	}
	defer program.Close() //nolint:errcheck // the links keep it
	for _, i := range interfaces {
		dev, err := net.InterfaceByName(i)
		if err != nil {
			return errors.Join(fmt.Errorf("gray: %s: %w", i, err), g.Heal(name))
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: program, Attach: ebpf.AttachTCXEgress})
		if err != nil {
			return errors.Join(fmt.Errorf("gray: loss on %s takes Linux 6.6: %w", i, err), g.Heal(name))
		}
		if g.links == nil {
			g.links = map[string][]link.Link{}
		}
		g.links[name] = append(g.links[name], l)
	}
	return nil
}

// Heal ends the losses of the link with a name; of all links if the name is empty.
func (g *Losses) Heal(name string) error {
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
