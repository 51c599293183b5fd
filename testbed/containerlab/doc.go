// Package containerlab writes a fabric as topologies of containerlab's, one for each machine: switches and hosts are
// containers of the program's image, links between machines are VXLAN tunnels. Package machines cuts the fabric.
package containerlab
