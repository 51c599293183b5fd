// Package machines assigns the parts of one fabric to several machines. It divides the fabric where the fewest
// links cross: pods stay whole, or with two tiers ToRs with their hosts. Package containerlab writes such a fabric
// as containers, package live builds it of processes.
package machines
