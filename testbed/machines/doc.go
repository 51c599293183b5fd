// Package machines says on which of several machines the parts of one fabric are. The fabric is cut where fewest links
// cross: pods, or ToRs with their hosts where there are two tiers, stay whole. Package containerlab writes such a fabric
// as containers, package live builds it of processes.
package machines
