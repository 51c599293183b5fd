// Package containerlab writes a fabric as containerlab topologies, one per machine: switches and hosts are
// containers of the program's image, links between machines are VXLAN tunnels. Package machines divides the fabric.
package containerlab
