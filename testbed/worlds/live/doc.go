// Package live builds a fabric on one Linux machine and runs scenarios on it: the
// live world.
//
// Every switch is a process of `ethereal switch`, every host a process of
// `ethereal host agent`, the controller one of `ethereal controller`. Links are
// veth pairs, shaped by the kernel's token bucket filter. All switches share one
// network namespace, every host has its own. Control connections run over UNIX
// sockets, which namespaces do not separate, so no management network is needed,
// and no address of the machine is touched.
//
// # Nothing stays behind
//
// The program first starts itself again in namespaces of its own, see [Enter]:
// network, mounts, processes, and, where it is not root, users. The namespaces
// have no names. The first process in them is the fabric's owner; when it dies,
// however that happens, the kernel kills all others and takes the interfaces
// away. Sockets and logs lie in a folder that the caller removes; one that
// was killed as well leaves it to the next to do so.
//
// # Failures
//
// [Fabric.Cut] can let a link swallow what is sent into it without anybody
// noticing, take an interface down, ask a switch over gNMI to do so, or kill a
// switch. The links of a switch that died go down, as those of a dead box do.
//
// # Time and rates
//
// Two directions of a link, five switches on a path, acknowledgements: a packet
// costs the machine some hundred microseconds of CPU. So rates are low, tens of
// megabits a second a host, and so are sizes. What then differs from hardware is
// described in docs/live.md.
package live
