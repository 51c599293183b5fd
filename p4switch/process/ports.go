package process

import (
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/internal/portspeed"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
)

func (d *Device) addPorts() error {
	var configs []portstate.Config
	found := map[int]port.Link{}
	if d.cfg.Links != nil {
		if err := d.cfg.Links.Attach(d.poller, linksID); err != nil {
			return err
		}
		links, err := d.cfg.Links.List() // after Attach, so that no change is missed
		if err != nil {
			return err
		}
		for _, l := range links {
			found[l.Index] = l
		}
	}
	for i, pc := range d.cfg.Ports {
		e := newEgress(d, pc)
		d.ports = append(d.ports, e)
		if pc.Number < 4096 {
			for int(pc.Number) >= len(d.byNumber) {
				d.byNumber = append(d.byNumber, nil)
			}
			d.byNumber[pc.Number] = e
		} else {
			d.others[pc.Number] = e
		}
		enabled := true
		e.up = true
		if d.cfg.Links != nil && pc.Index != 0 {
			d.byIndex[pc.Index] = e
			e.up, enabled = found[pc.Index].Up, found[pc.Index].Enabled
		}
		index, l := uint32(pc.Index), found[pc.Index]
		if d.cfg.NumberAsIndex {
			index = pc.Number
		}
		e.hardware = l.Hardware
		configs = append(configs, portstate.Config{Name: pc.Name, Number: pc.Number, IfIndex: index, Down: !e.up, Disable: !enabled,
			MAC: l.MAC, Speed: speedName(l), Autoneg: l.Autoneg, MTU: uint16(l.MTU)})
		if err := d.poller.Add(pc.Port, i); err != nil {
			return fmt.Errorf("switch: port %s: %w", pc.Name, err)
		}
		d.markReady(e) // earlier packets are there, though no event reports them
	}
	var err error
	if d.states, err = portstate.New(configs); err != nil {
		return err
	}
	d.states.Counters = d.portCounters
	d.states.Casts = !d.cfg.Kernel // the kernel's packets are only counted by number
	switch {
	case d.cfg.Kernel:
		path, err := newKernel(d)
		if err != nil {
			return err
		}
		d.datapath = path
	case d.cfg.Model != nil:
		d.datapath = newModel(d)
	}
	d.mu.leaving = d.datapath.sync
	d.states.OnAdmin = d.setAdmin
	d.states.Watch(d.portChanged)
	return nil
}

// portChanged applies a change of the state that gNMI shows.
func (d *Device) portChanged(ev portstate.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.egressOf(ev.State.Number)
	if e == nil || !ev.OperChanged {
		return
	}
	e.up = ev.State.Oper
	d.datapath.port(e)
	if !e.up {
		e.dropQueued()
	} else {
		d.markReady(e)
	}
	d.log.Info("port", "number", ev.State.Number, "name", ev.State.Name, "up", ev.State.Oper)
}

// setAdmin takes a port's interface down or up.
func (d *Device) setAdmin(number uint32, enabled bool) error {
	e := d.egressOf(number)
	if e == nil || d.cfg.Links == nil || e.index.Load() == 0 {
		return nil
	}
	if err := d.cfg.Links.SetUp(int(e.index.Load()), enabled); err != nil {
		return err
	}
	// The kernel's notification of the change has arrived already. If it is read now, it is not taken for another
	// program's change after the next Set.
	d.mu.Lock()
	err := d.cfg.Links.Read(d.linkChanged)
	d.mu.Unlock()
	d.notifyNow()
	return err
}

// linkChanged processes an interface's change. Forwarding learns at once that a link is down; the control side
// handles the rest.
func (d *Device) linkChanged(l port.Link) {
	e := d.byIndex[l.Index]
	if e == nil || e.gone { // one that returns from another namespace may have its index again
		e = d.replaceInterface(l)
	}
	if e == nil {
		return
	}
	e.gone = l.Gone
	if !l.Up && e.up {
		e.up = false
		if !l.OnlyUp { // its packets become the event first
			d.datapath.port(e)
		}
		e.dropQueued()
		d.portEvent(e, false)
	}
	d.notifications.links = append(d.notifications.links, portLink{e, l})
	d.notifications.signal()
}

// replaceInterface moves a port to a new interface with the name of its removed one. nil: the interface belongs to no
// port.
func (d *Device) replaceInterface(l port.Link) *egress {
	if l.Gone {
		return nil
	}
	for _, e := range d.ports {
		p := port.InterfaceOf(e.port)
		old := int(e.index.Load())
		if p == nil || p.Name() != l.Name || !e.gone && d.interfaceExists(old) { // the kernel may have dropped the message that it went
			continue
		}
		err := p.Move(l)
		if err == nil {
			delete(d.byIndex, old)
			d.byIndex[l.Index] = e
			e.index.Store(int64(l.Index))
			err = d.datapath.moved(e, old)
		}
		if err != nil {
			d.log.Error("port's interface was made again", "name", e.name, "err", err)
			return nil
		}
		d.log.Info("port's interface was made again", "number", e.number, "name", e.name, "interface", l.Name)
		return e
	}
	return nil
}

// interfaceExists reports whether there is an interface with an index.
func (d *Device) interfaceExists(index int) bool {
	links, err := d.cfg.Links.List()
	return err != nil || slices.ContainsFunc(links, func(l port.Link) bool { return l.Index == index })
}

// noteLink passes an interface's change to the control side. If another program takes it up or down, the port's
// configuration changes, so that gNMI can undo it.
func (d *Device) noteLink(e *egress, l port.Link) {
	if err := d.states.SetOper(e.number, l.Up, d.unixNanoseconds()); err != nil {
		d.log.Error("link state", "err", err)
	}
	if l.Gone || l.OnlyUp {
		return
	}
	if err := d.states.NoteAdmin(e.number, l.Enabled, d.unixNanoseconds()); err != nil {
		d.log.Error("admin state", "err", err)
	}
	if !d.cfg.NumberAsIndex {
		d.states.SetInterface(e.number, uint32(l.Index), l.MAC, d.unixNanoseconds()) //nolint:errcheck // the port is there
	}
	if l.MTU != 0 {
		d.states.SetMTU(e.number, uint16(l.MTU), d.unixNanoseconds()) //nolint:errcheck // the port is there
	}
	if !e.hardware {
		return
	}
	links, err := d.cfg.Links.List()
	if err != nil {
		d.log.Error("link speed", "err", err)
	}
	for _, l := range links {
		if l.Index == int(e.index.Load()) {
			d.states.SetSpeed(e.number, speedName(l), d.unixNanoseconds()) //nolint:errcheck // the port is there
		}
	}
}

func speedName(l port.Link) string {
	if l.Mbps == 0 {
		return ""
	}
	return portspeed.Name(int64(l.Mbps))
}

func (d *Device) egressOf(number uint32) *egress {
	if int(number) < len(d.byNumber) {
		return d.byNumber[number]
	}
	if len(d.others) == 0 {
		return nil
	}
	return d.others[number]
}

func (d *Device) portCounters(number uint32) portstate.Counters {
	e := d.egressOf(number)
	if e == nil {
		return portstate.Counters{}
	}
	c := d.datapath.interfaceCounters(e)
	d.mu.Lock()
	drops := e.drops
	if d.sw != nil {
		drops += d.sw.PortDrops(number)
	}
	d.mu.Unlock()
	if l, ok := d.cfg.Links.(interface {
		Counters(index int) (port.Counters, error)
	}); ok && e.index.Load() != 0 {
		if all, err := l.Counters(int(e.index.Load())); err == nil { // otherwise the interface is gone
			c.InFCS = all.InFCS
		}
	}
	return portstate.Counters{
		InMulticast: c.InMulticast, InBroadcast: c.InBroadcast, OutMulticast: c.OutMulticast, OutBroadcast: c.OutBroadcast,
		InOctets: c.InOctets, OutOctets: c.OutOctets, InPkts: c.InPkts, OutPkts: c.OutPkts, InFCSErrors: c.InFCS,
		InDiscards: c.InLost, OutDiscards: c.OutDown + c.OutLost + drops,
		InErrors: c.InTooLong, OutErrors: c.OutTooLong,
	}
}
