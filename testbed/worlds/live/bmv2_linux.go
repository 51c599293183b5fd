package live

import (
	"fmt"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// BMv2's ports are macvlans over the links' ends, and port events reach it by a veth pair
// of its own, as in Mininet: docs/mininet.md says why.

func bmv2Port(f *fabric.Fabric, e fabric.End) string {
	return fmt.Sprintf("%s-p%d", f.Name(e.Node), e.Port)
}

// eventPair returns the ends of the veth pair of a switch's port events: ours, and its.
func (x *Fabric) eventPair(id fabric.NodeID) (ours, its string) {
	return x.f.Name(id) + "-ev", x.f.Name(id) + "-evp"
}

// gnmiSocket returns the UNIX socket of a switch's gNMI: its own, or that of the server
// beside BMv2.
func (x *Fabric) gnmiSocket(id fabric.NodeID) string {
	if x.cfg.BMv2 == "" {
		return x.Socket(id)
	}
	return x.path(x.f.Name(id) + ".gnmi.sock")
}

// bmv2Command makes the interfaces of a BMv2 where they are not there, starts the gNMI
// server beside it, which tells it of its ports, and returns its command line.
func (x *Fabric) bmv2Command(id fabric.NodeID) ([]string, error) {
	name := x.f.Name(id)
	args := []string{x.cfg.BMv2, "--no-p4", "--device-id", strconv.Itoa(int(deviceID(id))), "--log-console", "-L", "warn",
		"--thrift-port", strconv.Itoa(thriftBase + int(id))}
	sidecar := []string{"gnmi", "--ethernet-names", "--addr", "unix:" + x.gnmiSocket(id)}
	for p := fabric.PortNo(1); int(p) <= x.f.Node(id).Ports(); p++ {
		end := fabric.End{Node: id, Port: p}
		if err := x.macvlan(InterfaceName(x.f, end), bmv2Port(x.f, end)); err != nil {
			return nil, err
		}
		args = append(args, "-i", fmt.Sprintf("%d@%s", p, bmv2Port(x.f, end)))
		sidecar = append(sidecar, "-i", fmt.Sprintf("%d@%s", p, InterfaceName(x.f, end)))
	}
	ours, its := x.eventPair(id)
	if _, err := x.handle.LinkByName(ours); err != nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = ours
		if err := x.handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: its}); err != nil {
			return nil, fmt.Errorf("live: %s: %w", ours, err)
		}
		for _, end := range []string{ours, its} {
			if err := x.nameUp(end); err != nil {
				return nil, err
			}
		}
		sidecar = append(sidecar, "--event-interface", ours)
		if _, err := x.thread.start(x.thread.home, name+"-gnmi", x.dir, sidecar, nil); err != nil {
			return nil, err
		}
	}
	return append(args, "-i", fmt.Sprintf("%d@%s", p4src.PortEventPort, its),
		"--", "--grpc-server-addr", "unix:"+x.Socket(id), "--cpu-port", strconv.Itoa(p4src.CPUPort),
		"--priority-queues", "2"), nil
}

// thriftBase is the first port of the Thrift servers that BMv2 starts whether it is asked
// or not, in the fabric's own namespace.
const thriftBase = 20000

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
		return fmt.Errorf("live: %s: BMv2's ports take the kernel's module macvlan: %w", name, err)
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
