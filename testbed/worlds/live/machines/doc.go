// Package machines spreads a live fabric over several machines. The first machine has the controller and starts a
// part of the fabric on each, itself included. Links between machines are tunnels, and the services of switches and
// agents are relayed by TCP with mutual TLS. Of a part, package live knows only its nodes and the places of their
// certificates.
package machines
