// Package containerlab writes a fabric as topologies of containerlab's, one for each machine: switches and hosts are
// containers of the program's image, links between machines are VXLAN tunnels. The fabric is cut where fewest links
// cross: pods, or ToRs where there are two tiers, stay whole.
package containerlab
