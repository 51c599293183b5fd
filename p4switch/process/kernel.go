package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// kernelDatapath is the program in the kernel, if configured. The device's mu guards it.
type kernelDatapath struct {
	interpreterDatapath
	d               *Device
	sw              *ebpf.Switch          // nil: the kernel does not accept the program
	hooks           []ebpf.Hook           // by the ports' position
	queues          *ebpf.Queues          // below the ports
	initialCounters map[int]port.Counters // initial counters of the interfaces, by index
	queueReadings   map[uint32]ebpf.Queue // their last readings
	devices         *ebpf.Devices         // nil: the kernel's notifications of lost carriers must do
	failed          error                 // why it is not in use
	earlierPrograms Stats                 // counts of earlier programs; its Kernel is nil if the kernel is not used
}

// KernelStats counts the packets that the kernel's data path forwarded or dropped itself, and those that it passed to
// the interpreter, by P4 construct.
type KernelStats struct {
	Forwarded uint64     `json:"forwarded"`
	Dropped   uint64     `json:"dropped"`
	Up        []PassedUp `json:"up"`              // packets passed to the interpreter, by construct
	Hook      string     `json:"hook,omitempty"`  // where the eBPF program is attached; see [ebpf.HookKind]
	Err       string     `json:"error,omitempty"` // why the kernel processes no packets; "": it does
}

// PassedUp is the number of packets that met a P4 construct that is not compiled to eBPF.
type PassedUp struct {
	Construct string `json:"construct"`
	Packets   uint64 `json:"packets"`
}

// newKernel attaches to the ports' interfaces, while the calling thread is in their network namespace.
func newKernel(d *Device) (datapath, error) {
	k := &kernelDatapath{d: d}
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

func (k *kernelDatapath) attach() error {
	k.earlierPrograms.Kernel = &KernelStats{}
	for _, e := range k.d.ports {
		if _, ok := e.port.(*port.Interface); !ok || e.index.Load() == 0 {
			return fmt.Errorf("switch: port %s: the kernel's data path takes network interfaces only", e.name)
		}
		h, err := ebpf.Attach(int(e.index.Load()), k.d.cfg.KernelHook)
		if err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
		k.hooks = append(k.hooks, h)
	}
	err := k.countInterfaces()
	if err != nil {
		return err
	}
	if k.queueReadings, err = k.queues.Read(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	var indices []uint32
	for _, e := range k.d.ports {
		indices = append(indices, uint32(e.index.Load()))
	}
	if k.devices, err = ebpf.OpenDevices(indices); err != nil {
		k.devices = nil
		k.d.log.Warn("packets do not see that a port has lost its carrier", "err", err)
	}
	return nil
}

// processInstead processes the event of a port that has lost its carrier before the packet that the kernel passed up
// for that.
func (k *kernelDatapath) processInstead(uint32, []byte) bool {
	if k.sw == nil {
		return false
	}
	number, lost := k.sw.Lost()
	if !lost {
		return false
	}
	if e := k.d.egressOf(number); e != nil && e.up && k.d.cfg.Links != nil {
		if err := k.d.cfg.Links.Read(k.d.linkChanged); err != nil { // what is older
			k.d.log.Error("link state", "err", err)
		}
		k.d.linkChanged(port.Link{Index: int(e.index.Load()), OnlyUp: true})
		k.d.injectNow()
		k.port(e)
	}
	return false
}

// interfaceCounters counts the packets of a port's interface since the switch started, including the kernel's.
func (k *kernelDatapath) interfaceCounters(e *egress) port.Counters {
	c := e.port.Counters()
	if k.queues == nil {
		return c
	}
	index := int(e.index.Load())
	now, err := k.queues.Counters(index)
	if err != nil {
		return c // the interface is gone
	}
	began := k.initialCounters[index]
	c.InPkts, c.InOctets = now.InPkts-began.InPkts, now.InOctets-began.InOctets
	c.OutPkts, c.OutOctets = now.OutPkts-began.OutPkts, now.OutOctets-began.OutOctets
	return c
}

// queueReadInterval is the interval at which the rates of the queues below the ports are read: changes are not
// announced.
const queueReadInterval = time.Second

// run passes the rates of the queues below the ports to the program in the kernel.
func (k *kernelDatapath) run(ctx context.Context) error {
	if k.queues == nil {
		return nil
	}
	for tick := time.NewTicker(queueReadInterval); ; {
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
		before := k.queueReadings
		if k.queueReadings = below; k.sw != nil {
			k.sw.SetQueues(below)
		}
		for _, e := range k.d.ports {
			if i := uint32(e.index.Load()); before[i] != below[i] {
				k.port(e)
			}
		}
		k.d.mu.Unlock()
	}
}

func (k *kernelDatapath) close() error {
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

func (k *kernelDatapath) use(sw *interp.Switch) func() {
	if !k.d.cfg.Kernel {
		return func() {}
	}
	d := k.d
	cfg := ebpf.Config{
		QueuesPerPort: d.cfg.Queues, DropPort: d.cfg.DropPort, CPUPort: d.cfg.CPUPort, Mark: ebpf.Mark,
		Ports: map[uint32]uint32{}, Devices: k.devices, Epoch: uint64(monotonic.Now() - d.monotonicNanoseconds()),
	}
	for _, e := range d.ports {
		cfg.Ports[e.number] = uint32(e.index.Load())
	}
	d.mu.Lock()
	cfg.Queues = k.queueReadings
	d.mu.Unlock()
	next, err := ebpf.Load(sw, cfg)
	return func() { k.useProgram(next, err) }
}

// useProgram makes packets use the program next in the kernel from now on. After an error the interpreter forwards all
// packets.
func (k *kernelDatapath) useProgram(next *ebpf.Switch, err error) {
	k.failed = err
	old := k.sw
	if err == nil {
		k.sw = next
		next.SetQueues(k.queueReadings) // they may have been read since it was loaded
		for _, e := range k.d.ports {
			k.port(e)
		}
		k.attachAll(next)
	} else {
		k.attachAll(nil)
		k.sw = nil
	}
	if old != nil {
		countFates(old, &k.earlierPrograms)
		old.Close()
	}
	if k.failed != nil {
		k.d.log.Error("the kernel takes no packets", "err", k.failed)
	}
}

// attachAll attaches a program to all interfaces, or with nil detaches it. A packet that arrives meanwhile may be
// lost; none is processed twice: if the program cannot be detached, the port continues without the packets that the
// kernel forwards.
func (k *kernelDatapath) attachAll(sw *ebpf.Switch) {
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
func (k *kernelDatapath) sync() {
	if k.sw == nil || k.failed != nil {
		return
	}
	if err := errors.Join(k.sw.Sync(), k.sw.Err()); err != nil {
		k.failed = err
		k.attachAll(nil)
		k.d.log.Error("the kernel takes no packets any more", "err", k.failed)
	}
}

// port makes the kernel send through a port only while the port is up.
func (k *kernelDatapath) port(e *egress) {
	if k.sw == nil {
		return
	}
	var err error
	if e.up {
		err = k.sw.SetPort(e.number, uint32(e.index.Load()))
	} else {
		err = k.sw.ClosePort(e.number)
	}
	if err != nil {
		k.d.log.Error("port in the kernel", "err", err)
	}
}

// noHook is the hook of an interface to which no program could be attached.
type noHook struct{}

func (noHook) Kind() ebpf.HookKind { return "" }
func (noHook) Close() error        { return nil }

func (noHook) Run(s *ebpf.Switch) error {
	if s == nil {
		return nil
	}
	return errors.New("switch: no program can be attached to a port's interface")
}

// moved attaches to a port's new interface. Its counters are the port's from then on.
func (k *kernelDatapath) moved(e *egress, old int) error {
	at := slices.Index(k.d.ports, e)
	if at >= len(k.hooks) {
		return nil
	}
	k.hooks[at].Close() //nolint:errcheck // it went with its interface
	h, err := ebpf.Attach(int(e.index.Load()), k.d.cfg.KernelHook)
	if err != nil {
		k.hooks[at] = noHook{}
		k.failed = errors.Join(k.failed, err)
		k.attachAll(nil)
		return err
	}
	k.hooks[at] = h
	if k.sw == nil || k.failed != nil {
		return nil
	}
	return errors.Join(k.sw.Forget(uint32(old)), h.Run(k.sw))
}

// waits returns how long an interpreter's packet that leaves now will wait in the queue below the port, which
// also holds the kernel's packets, and the number of packets before it.
func (k *kernelDatapath) waits(e *egress) (ns int64, packets uint32) {
	if k.sw == nil {
		return 0, 0
	}
	return k.sw.Waits(e.number, k.d.now)
}

// noteSent adds an interpreter's packet to that queue.
func (k *kernelDatapath) noteSent(e *egress, bytes int) {
	if k.sw != nil {
		k.sw.Sent(e.number, k.d.now, bytes)
	}
}

// counted adds the kernel's counts.
func (k *kernelDatapath) counted(s *Stats) {
	if k.earlierPrograms.Kernel == nil {
		return
	}
	past := k.earlierPrograms.Kernel
	s.Kernel = &KernelStats{Forwarded: past.Forwarded, Dropped: past.Dropped, Up: []PassedUp{}, Err: past.Err}
	if len(k.hooks) > 0 {
		s.Kernel.Hook = string(k.hooks[0].Kind())
	}
	if k.failed != nil {
		s.Kernel.Err = k.failed.Error()
	}
	s.Ingress += k.earlierPrograms.Ingress
	s.Sent += k.earlierPrograms.Sent
	s.NoPort += k.earlierPrograms.NoPort
	s.PortDown += k.earlierPrograms.PortDown
	for i, n := range k.earlierPrograms.PipelineDrops {
		s.PipelineDrops[i] += n
	}
	if k.sw == nil {
		return
	}
	fates := countFates(k.sw, s)
	for i, c := range k.sw.Constructs() {
		if n := fates[ebpf.FateUp+i]; n > 0 {
			s.Kernel.Up = append(s.Kernel.Up, PassedUp{c, n})
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

// countInterfaces makes the ports report the counters of their interfaces.
func (k *kernelDatapath) countInterfaces() (err error) {
	if k.queues, err = ebpf.OpenQueues(); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	k.initialCounters = map[int]port.Counters{}
	for _, e := range k.d.ports {
		index := int(e.index.Load())
		if k.initialCounters[index], err = k.queues.Counters(index); err != nil {
			return fmt.Errorf("switch: port %s: %w", e.name, err)
		}
	}
	return nil
}
