// Package live builds a fabric on one Linux machine and runs scenarios on it: the live world.
//
// Every switch is a process of `ethereal switch`, every host a process of `ethereal host agent`, the controller one
// of `ethereal controller`. Links are veth pairs, shaped by the kernel's token bucket filter. All switches share
// one network namespace, every host has its own. Control connections use UNIX sockets, which namespaces do not
// separate, so no management network is needed, and the machine's addresses are not touched.
//
// # Clean-up
//
// The program first restarts itself in new namespaces, see [Enter]: network, mounts, processes, and, if it is not
// root, users. The namespaces are anonymous. Their first process is the fabric's owner; when it dies, even by
// SIGKILL, the kernel kills all others and removes the interfaces. The caller removes the folder with sockets and
// logs. If the caller was killed too, the next run removes it.
//
// # Failures
//
// [Fabric.Cut] can make a link silently lose the packets sent into it, take an interface down, ask a switch over
// gNMI to do so, or kill a switch. The links of a switch that died go down, as those of a dead box do.
//
// # Time and rates
//
// A packet costs the machine some hundred microseconds of CPU: two directions of a link, five switches on a path,
// acknowledgements. So rates are low, tens of megabits a second per host, and so are sizes. docs/live.md describes
// the differences from hardware.
package live
