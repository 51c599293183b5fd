// Package machines spreads a live fabric over several machines. The first one has the controller and starts a part of the
// fabric on each, itself included; links between machines are tunnels, and what switches and agents serve is relayed by
// TCP with mutual TLS. Package live knows of a part no more than which nodes are here, and where their certificates are.
package machines
