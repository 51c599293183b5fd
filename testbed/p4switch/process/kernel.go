package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/testbed/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/testbed/port"
)

// inKernel is the program in the kernel, where it is wanted there. The device's mu
// guards it.
type inKernel struct {
	sw     *ebpf.Switch          // nil: the kernel does not take the program
	hooks  []ebpf.Hook           // by the ports' position
	queues *ebpf.Queues          // below the ports
	began  map[int]port.Counters // of the interfaces, by index, before this switch
	below  map[uint32]ebpf.Queue // what was read of them last
	failed error                 // why it is not in use
	past   Stats                 // counts of programs before; its Kernel is nil where it is not wanted
}

// KernelStats says which packets the kernel forwarded or dropped itself, and for
// what it handed others up.
type KernelStats struct {
	Forwarded uint64  `json:"forwarded"`
	Dropped   uint64  `json:"dropped"`
	Up        []UpFor `json:"up"`              // of this program
	Hook      string  `json:"hook,omitempty"`  // where the program is; see ebpf.HookKind
	Err       string  `json:"error,omitempty"` // why the kernel takes no packets
}

// UpFor is how many packets met a construct that the kernel has not.
type UpFor struct {
	Construct string `json:"construct"`
	Packets   uint64 `json:"packets"`
}

// attach takes the interfaces' hooks, while the calling thread is in their network
// namespace.
func (d *Device) attach() error {
	d.kernel.past.Kernel = &KernelStats{}
	for _, e := range d.ports {
		if _, ok := e.port.(*port.Interface); !ok || e.index == 0 {
			return fmt.Errorf("switch: port %s: the kernel's data path takes network interfaces only", e.name)
		}
		h, err := ebpf.Attach(e.index, d.cfg.KernelHook)
		if err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
		d.kernel.hooks = append(d.kernel.hooks, h)
	}
	err := d.countInterfaces()
	if err != nil {
		return err
	}
	if d.kernel.below, err = d.kernel.queues.Read(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	d.mu.leaving = d.syncKernel
	return nil
}

// passed counts what has come and left by a port's interface since the switch started, the kernel's packets too.
func (d *Device) passed(e *egress) port.Counters {
	c := e.port.Counters()
	if d.kernel.queues == nil {
		return c
	}
	now, err := d.kernel.queues.Counters(e.index)
	if err != nil {
		return c // the interface is gone
	}
	began := d.kernel.began[e.index]
	c.InPkts, c.InOctets = now.InPkts-began.InPkts, now.InOctets-began.InOctets
	c.OutPkts, c.OutOctets = now.OutPkts-began.OutPkts, now.OutOctets-began.OutOctets
	return c
}

// queuesRead is how often the rates of the queues below the ports are read: changes are not announced.
const queuesRead = time.Second

// followQueues has the program in the kernel see queues of the rates that those below the ports have.
func (d *Device) followQueues(ctx context.Context) error {
	for tick := time.NewTicker(queuesRead); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case <-tick.C:
		}
		below, err := d.kernel.queues.Read()
		if err != nil {
			d.log.Error("the queues below the ports", "err", err)
			continue
		}
		d.mu.Lock()
		before := d.kernel.below
		if d.kernel.below = below; d.kernel.sw != nil {
			d.kernel.sw.SetQueues(below)
		}
		for _, e := range d.ports {
			if i := uint32(e.index); before[i] != below[i] {
				d.openInKernel(e)
			}
		}
		d.mu.Unlock()
	}
}

func (d *Device) detach() error {
	var errs []error
	for _, h := range d.kernel.hooks {
		errs = append(errs, h.Close())
	}
	d.kernel.hooks = nil
	if d.kernel.queues != nil {
		d.kernel.queues.Close()
		d.kernel.queues = nil
	}
	if d.kernel.sw != nil {
		d.kernel.sw.Close()
		d.kernel.sw = nil
	}
	return errors.Join(errs...)
}

// lower loads a switch's program into the kernel, which takes a while: no lock is held.
func (d *Device) lower(sw *interp.Switch) (*ebpf.Switch, error) {
	if !d.cfg.Kernel {
		return nil, nil
	}
	cfg := ebpf.Config{
		QueuesPerPort: d.cfg.Queues, DropPort: d.cfg.DropPort, CPUPort: d.cfg.CPUPort, Mark: ebpf.Mark,
		Ports: map[uint32]uint32{}, Epoch: uint64(monotonic.Now() - d.clock()),
	}
	for _, e := range d.ports {
		cfg.Ports[e.number] = uint32(e.index)
	}
	d.mu.Lock()
	cfg.Queues = d.kernel.below
	d.mu.Unlock()
	return ebpf.Load(sw, cfg)
}

// useKernel has packets run through a program from now on. With an error they are all
// forwarded here.
func (d *Device) useKernel(next *ebpf.Switch, err error) {
	k := &d.kernel
	if !d.cfg.Kernel {
		return
	}
	k.failed = err
	old := k.sw
	if err == nil {
		k.sw = next
		next.SetQueues(k.below) // which may have been read since it was loaded
		for _, e := range d.ports {
			d.openInKernel(e)
		}
		d.runInKernel(next)
	} else {
		d.runInKernel(nil)
		k.sw = nil
	}
	if old != nil {
		countFates(old, &k.past)
		old.Close()
	}
	if k.failed != nil {
		d.log.Error("the kernel takes no packets", "err", k.failed)
	}
}

// runInKernel puts a program on all interfaces, or with nil takes it off. A packet that
// comes meanwhile may be lost; none is processed twice: where the program cannot be taken
// off, the port goes on without what the kernel forwards.
func (d *Device) runInKernel(sw *ebpf.Switch) {
	var errs []error
	for i, h := range d.kernel.hooks {
		p := d.ports[i].port.(*port.Interface)
		first, then := func() error { return p.OnlyMarked(ebpf.Mark) }, func() error { return h.Run(sw) }
		if sw == nil {
			first, then = then, func() error { return p.OnlyMarked(0) }
		}
		err := first()
		if err == nil {
			err = then()
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	d.kernel.failed = errors.Join(d.kernel.failed, err)
	if err != nil && sw != nil {
		d.runInKernel(nil) // all or none
	}
}

// syncKernel has the kernel see what the control side has changed. When that fails
// the program leaves the kernel; its counters stay as they are.
func (d *Device) syncKernel() {
	k := &d.kernel
	if k.sw == nil || k.failed != nil {
		return
	}
	if err := errors.Join(k.sw.SyncChanged(), k.sw.Err()); err != nil {
		k.failed = err
		d.runInKernel(nil)
		d.log.Error("the kernel takes no packets any more", "err", k.failed)
	}
}

// openInKernel has the kernel send by a port, or not, as the port is up.
func (d *Device) openInKernel(e *egress) {
	k := &d.kernel
	if k.sw == nil {
		return
	}
	var err error
	if e.up {
		err = k.sw.SetPort(e.number, uint32(e.index))
	} else {
		err = k.sw.ClosePort(e.number)
	}
	if err != nil {
		d.log.Error("port in the kernel", "err", err)
	}
}

// belowKernel is how long a packet of the interpreter's that leaves now will wait in the queue below the port, which
// those of the kernel fill, and behind how many.
func (d *Device) belowKernel(e *egress) (ns int64, packets uint32) {
	if d.kernel.sw == nil {
		return 0, 0
	}
	return d.kernel.sw.Waits(e.number, d.now)
}

// queueInKernel has a packet of the interpreter's wait there.
func (d *Device) queueInKernel(e *egress, bytes int) {
	if d.kernel.sw != nil {
		d.kernel.sw.Sent(e.number, d.now, bytes)
	}
}

// addTo adds the kernel's counts.
func (k *inKernel) addTo(s *Stats) {
	if k.past.Kernel == nil {
		return
	}
	past := k.past.Kernel
	s.Kernel = &KernelStats{Forwarded: past.Forwarded, Dropped: past.Dropped, Up: []UpFor{}, Err: past.Err}
	if len(k.hooks) > 0 {
		s.Kernel.Hook = string(k.hooks[0].Kind())
	}
	if k.failed != nil {
		s.Kernel.Err = k.failed.Error()
	}
	s.Ingress += k.past.Ingress
	s.Sent += k.past.Sent
	s.NoPort += k.past.NoPort
	s.PortDown += k.past.PortDown
	for i, n := range k.past.PipelineDrops {
		s.PipelineDrops[i] += n
	}
	if k.sw == nil {
		return
	}
	fates := countFates(k.sw, s)
	for i, c := range k.sw.Constructs() {
		if n := fates[ebpf.FateUp+i]; n > 0 {
			s.Kernel.Up = append(s.Kernel.Up, UpFor{c, n})
		}
	}
}

// countFates adds what became of a program's packets in the kernel.
func countFates(sw *ebpf.Switch, s *Stats) []uint64 {
	fates, err := sw.Fates()
	if err != nil {
		s.Kernel.Err = err.Error()
		return make([]uint64, ebpf.FateUp+len(sw.Constructs()))
	}
	s.Sent += fates[ebpf.FateForwarded]
	s.NoPort += fates[ebpf.FateNoPort]
	s.PortDown += fates[ebpf.FatePortDown]
	s.PipelineDrops[interp.DropIngress] += fates[ebpf.FateDroppedIngress]
	s.PipelineDrops[interp.DropEgress] += fates[ebpf.FateDroppedEgress]
	s.PipelineDrops[interp.DropParser] += fates[ebpf.FateParserError]
	s.PipelineDrops[interp.DropPriority] += fates[ebpf.FatePriority]
	s.Kernel.Forwarded += fates[ebpf.FateForwarded]
	for _, n := range fates[ebpf.FateDroppedIngress:ebpf.FateUp] {
		s.Kernel.Dropped += n
	}
	for _, n := range fates[:ebpf.FateUp] {
		s.Ingress += n
	}
	return fates
}

// countInterfaces has the ports' counters be those of their interfaces from now on.
func (d *Device) countInterfaces() (err error) {
	if d.kernel.queues, err = ebpf.OpenQueues(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	d.kernel.began = map[int]port.Counters{}
	for _, e := range d.ports {
		if d.kernel.began[e.index], err = d.kernel.queues.Counters(e.index); err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
	}
	return nil
}
