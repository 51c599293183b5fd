package live

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// launchParams returns the environment of a switch that is to be started: addresses, ports, options.
func (x *Fabric) launchParams(id fabric.NodeID) targets.LaunchParams {
	b := targets.LaunchParams{
		Binary: x.cfg.Binary, Datapath: x.cfg.Datapath, Number: int(id), DeviceID: deviceID(id),
		P4Runtime: "unix:" + x.Socket(id), GNMI: "unix:" + x.gnmiSocket(id), QueueDepth: x.cfg.QueueDepth,
		CPUPort: p4src.CPUPort, EventPort: p4src.PortEventPort,
		Events: [2]string{x.f.Name(id) + "-ev", x.f.Name(id) + "-evp"},
	}
	for p := fabric.PortNo(1); int(p) <= x.f.Node(id).Ports(); p++ {
		b.Ports = append(b.Ports, targets.LaunchPort{
			Interface: InterfaceName(x.f, fabric.End{Node: id, Port: p}), Shadow: fmt.Sprintf("%s-p%d", x.f.Name(id), p),
		})
	}
	return b
}

// gnmiSocket returns the UNIX socket of a switch's gNMI: its own, or that of the server
// beside it.
func (x *Fabric) gnmiSocket(id fabric.NodeID) string {
	if !x.cfg.kind().Traits().NoGNMI {
		return x.Socket(id)
	}
	return x.path(x.f.Name(id) + ".gnmi.sock")
}

// shadow makes the ports of a switch that are macvlans over the links' ends, and the veth pair by which it learns of
// them, where they are missing, and starts the process that notifies the switch of them: docs/mininet.md says why.
func (x *Fabric) shadow(id fabric.NodeID, b targets.LaunchParams, beside []string) error {
	for _, p := range b.Ports {
		if err := x.macvlan(p.Interface, p.Shadow); err != nil {
			return err
		}
	}
	if _, err := x.handle.LinkByName(b.Events[0]); err == nil {
		return nil // of a switch that was killed
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = b.Events[0]
	if err := x.handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: b.Events[1]}); err != nil {
		return fmt.Errorf("live: %s: %w", b.Events[0], err)
	}
	for _, end := range b.Events {
		if err := x.nameUp(end); err != nil {
			return err
		}
	}
	_, err := x.thread.start(x.thread.home, x.f.Name(id)+"-gnmi", x.dir, beside, x.ended)
	return err
}

func (x *Fabric) macvlan(parent, name string) error {
	if _, err := x.handle.LinkByName(name); err == nil {
		return nil // of a switch that was killed
	}
	over, err := x.handle.LinkByName(parent)
	if err != nil {
		return fmt.Errorf("live: %s: %w", parent, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.MTU = name, over.Attrs().Index, x.mtu
	if err := x.handle.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_PASSTHRU}); err != nil {
		return fmt.Errorf("live: %s: the switch's ports take the kernel's module macvlan: %w", name, err)
	}
	return x.nameUp(name)
}

func (x *Fabric) nameUp(name string) error {
	l, err := x.handle.LinkByName(name)
	if err == nil {
		err = x.handle.LinkSetUp(l)
	}
	if err != nil {
		return fmt.Errorf("live: %s: %w", name, err)
	}
	return nil
}
