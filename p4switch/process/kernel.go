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
	interpreted
	d      *Device
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

// newKernel attaches to the ports' interfaces, while the calling thread is in their network namespace.
func newKernel(d *Device) (datapath, error) {
	k := &inKernel{d: d}
	err := k.attach()
	if err == nil {
		return k, nil
	}
	err = errors.Join(err, k.close())
	if !d.cfg.KernelOptional {
		return nil, err
	}
	k.failed, d.cfg.Kernel = err, false
	d.log.Warn("the kernel takes no packets", "err", err)
	return k, nil
}

func (k *inKernel) attach() error {
	k.past.Kernel = &KernelStats{}
	for _, e := range k.d.ports {
		if _, ok := e.port.(*port.Interface); !ok || e.index == 0 {
			return fmt.Errorf("switch: port %s: the kernel's data path takes network interfaces only", e.name)
		}
		h, err := ebpf.Attach(e.index, k.d.cfg.KernelHook)
		if err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
		k.hooks = append(k.hooks, h)
	}
	err := k.countInterfaces()
	if err != nil {
		return err
	}
	if k.below, err = k.queues.Read(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	return nil
}

// passed counts the packets of a port's interface since the switch started, including the kernel's.
func (k *inKernel) passed(e *egress) port.Counters {
	c := e.port.Counters()
	if k.queues == nil {
		return c
	}
	now, err := k.queues.Counters(e.index)
	if err != nil {
		return c // the interface is gone
	}
	began := k.began[e.index]
	c.InPkts, c.InOctets = now.InPkts-began.InPkts, now.InOctets-began.InOctets
	c.OutPkts, c.OutOctets = now.OutPkts-began.OutPkts, now.OutOctets-began.OutOctets
	return c
}

// queuesRead is the interval at which the rates of the queues below the ports are read: changes are not announced.
const queuesRead = time.Second

// run gives the program in the kernel the rates of the queues below the ports.
func (k *inKernel) run(ctx context.Context) error {
	if k.queues == nil {
		return nil
	}
	for tick := time.NewTicker(queuesRead); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case <-tick.C:
		}
		below, err := k.queues.Read()
		if err != nil {
			k.d.log.Error("the queues below the ports", "err", err)
			continue
		}
		k.d.mu.Lock()
		before := k.below
		if k.below = below; k.sw != nil {
			k.sw.SetQueues(below)
		}
		for _, e := range k.d.ports {
			if i := uint32(e.index); before[i] != below[i] {
				k.port(e)
			}
		}
		k.d.mu.Unlock()
	}
}

func (k *inKernel) close() error {
	k.d.mu.Lock()
	defer k.d.mu.Unlock()
	var errs []error
	for _, h := range k.hooks {
		errs = append(errs, h.Close())
	}
	k.hooks = nil
	if k.queues != nil {
		k.queues.Close()
		k.queues = nil
	}
	if k.sw != nil {
		k.sw.Close()
		k.sw = nil
	}
	return errors.Join(errs...)
}

func (k *inKernel) use(sw *interp.Switch) func() {
	if !k.d.cfg.Kernel {
		return func() {}
	}
	d := k.d
	cfg := ebpf.Config{
		QueuesPerPort: d.cfg.Queues, DropPort: d.cfg.DropPort, CPUPort: d.cfg.CPUPort, Mark: ebpf.Mark,
		Ports: map[uint32]uint32{}, Epoch: uint64(monotonic.Now() - d.clock()),
	}
	for _, e := range d.ports {
		cfg.Ports[e.number] = uint32(e.index)
	}
	d.mu.Lock()
	cfg.Queues = k.below
	d.mu.Unlock()
	next, err := ebpf.Load(sw, cfg)
	return func() { k.put(next, err) }
}

// put makes packets run through a program from now on. With an error all are forwarded here.
func (k *inKernel) put(next *ebpf.Switch, err error) {
	k.failed = err
	old := k.sw
	if err == nil {
		k.sw = next
		next.SetQueues(k.below) // they may have been read since it was loaded
		for _, e := range k.d.ports {
			k.port(e)
		}
		k.attachAll(next)
	} else {
		k.attachAll(nil)
		k.sw = nil
	}
	if old != nil {
		countFates(old, &k.past)
		old.Close()
	}
	if k.failed != nil {
		k.d.log.Error("the kernel takes no packets", "err", k.failed)
	}
}

// attachAll attaches a program to all interfaces, or with nil detaches it. A packet that arrives meanwhile may be
// lost; none is processed twice: if the program cannot be detached, the port continues without the packets that the
// kernel forwards.
func (k *inKernel) attachAll(sw *ebpf.Switch) {
	var errs []error
	for i, h := range k.hooks {
		p := k.d.ports[i].port.(*port.Interface)
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
	k.failed = errors.Join(k.failed, err)
	if err != nil && sw != nil {
		k.attachAll(nil) // all or none
	}
}

// sync copies the control side's changes to the kernel. After an error the program leaves the kernel; its
// counters are kept.
func (k *inKernel) sync() {
	if k.sw == nil || k.failed != nil {
		return
	}
	if err := errors.Join(k.sw.SyncChanged(), k.sw.Err()); err != nil {
		k.failed = err
		k.attachAll(nil)
		k.d.log.Error("the kernel takes no packets any more", "err", k.failed)
	}
}

// port makes the kernel send through a port only while the port is up.
func (k *inKernel) port(e *egress) {
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
		k.d.log.Error("port in the kernel", "err", err)
	}
}

// waits returns how long an interpreter's packet that leaves now will wait in the queue below the port, which
// also holds the kernel's packets, and the number of packets before it.
func (k *inKernel) waits(e *egress) (ns int64, packets uint32) {
	if k.sw == nil {
		return 0, 0
	}
	return k.sw.Waits(e.number, k.d.now)
}

// sent adds an interpreter's packet to that queue.
func (k *inKernel) sent(e *egress, bytes int) {
	if k.sw != nil {
		k.sw.Sent(e.number, k.d.now, bytes)
	}
}

// counted adds the kernel's counts.
func (k *inKernel) counted(s *Stats) {
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
func (k *inKernel) countInterfaces() (err error) {
	if k.queues, err = ebpf.OpenQueues(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	k.began = map[int]port.Counters{}
	for _, e := range k.d.ports {
		if k.began[e.index], err = k.queues.Counters(e.index); err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
	}
	return nil
}
