package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// inKernel is the program in the kernel, if configured. The device's mu guards it.
type inKernel struct {
	sw     *ebpf.Switch          // nil: the kernel does not accept the program
	hooks  []ebpf.Hook           // by the ports' position
	queues *ebpf.Queues          // below the ports
	began  map[int]port.Counters // initial counters of the interfaces, by index
	below  map[uint32]ebpf.Queue // their last readings
	failed error                 // why it is not in use
	past   Stats                 // counts of earlier programs; its Kernel is nil if the kernel is not used
}

// KernelStats counts the packets that the kernel forwarded or dropped itself, and those passed up, by construct.
type KernelStats struct {
	Forwarded uint64  `json:"forwarded"`
	Dropped   uint64  `json:"dropped"`
	Up        []UpFor `json:"up"`              // of this program
	Hook      string  `json:"hook,omitempty"`  // where the program is; see ebpf.HookKind
	Err       string  `json:"error,omitempty"` // why the kernel processes no packets
}

// UpFor counts packets that met a construct that the kernel program does not have.
type UpFor struct {
	Construct string `json:"construct"`
	Packets   uint64 `json:"packets"`
}

// attach attaches to the interfaces' hooks, while the calling thread is in their network namespace.
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

// passed counts the packets of a port's interface since the switch started, including the kernel's.
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

// queuesRead is the interval at which the rates of the queues below the ports are read: changes are not announced.
const queuesRead = time.Second

// followQueues gives the program in the kernel the rates of the queues below the ports.
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

// lower loads a switch's program into the kernel, which is slow: no lock is held.
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

// useKernel makes packets run through a program from now on. With an error all are forwarded here.
func (d *Device) useKernel(next *ebpf.Switch, err error) {
	k := &d.kernel
	if !d.cfg.Kernel {
		return
	}
	k.failed = err
	old := k.sw
	if err == nil {
		k.sw = next
		next.SetQueues(k.below) // they may have been read since it was loaded
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

// runInKernel attaches a program to all interfaces, or with nil detaches it. A packet that arrives meanwhile may be
// lost; none is processed twice: if the program cannot be detached, the port continues without the packets that the
// kernel forwards.
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

// syncKernel copies the control side's changes to the kernel. After an error the program leaves the kernel; its
// counters are kept.
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

// openInKernel makes the kernel send through a port only while the port is up.
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

// belowKernel returns how long an interpreter's packet that leaves now will wait in the queue below the port, which
// also holds the kernel's packets, and the number of packets before it.
func (d *Device) belowKernel(e *egress) (ns int64, packets uint32) {
	if d.kernel.sw == nil {
		return 0, 0
	}
	return d.kernel.sw.Waits(e.number, d.now)
}

// queueInKernel adds an interpreter's packet to that queue.
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

// countFates adds a program's counts of packets in the kernel.
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

// countInterfaces makes the ports' counters those of their interfaces.
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
