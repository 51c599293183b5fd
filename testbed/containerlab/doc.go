// Package containerlab writes a fabric as containerlab topologies, one per machine: switches and hosts are
// containers of the program's image, links between machines are VXLAN tunnels. It divides the fabric where the fewest
// links cross: pods stay whole, or in a fabric of two tiers ToRs with their hosts.
package containerlab
