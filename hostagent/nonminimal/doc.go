// Package nonminimal divides flows over paths of unequal length, such that the
// fullest link has as little to carry as can be, in few pieces.
//
// It generalises Ethereal's splitting (arXiv 2407.00550, Theorem 1) to fabrics whose
// paths are not alike, such as a dragonfly's: there equal pieces over all paths balance
// nothing, since a detour takes capacity of more links than the minimal path, and links
// that few detours share stay idle. What takes the theorem's place is a linear program, minimum over
// all divisions of the greatest link load, and a dealing of whole flows that comes near to it.
//
// # Input
//
// A [Problem] has channels (directions of links), for each the time that a byte takes, and demands: flows
// between the same two places, with the paths that are known between them as lists of channels. The
// package knows no fabric. It does not know either who asks: a sender that knows its own flows has a problem
// of these, one that knows the whole collective has a problem of all. Every host that solves the same problem has the
// same answer, so that no host need tell another: nothing is drawn. That is of hosts of one processor architecture:
// Go may fuse a multiplication and an addition on others.
//
// # The linear program
//
// [Problem.Balance] minimises a soft maximum of the loads, mu log sum exp(load/mu), by
// moving bytes of one demand at a time from its dearer paths to its cheapest, with the step that
// Newton's method has, while mu shrinks (a gradient projection, as traffic assignment has used since
// Jayakrishnan et al. 1994). Any weights of the channels prove a bound: no division has a greatest
// load below what all bytes cost by their cheapest paths, per unit of weight. So each answer comes with a
// proven lower bound, and the two differ by what [Balance] says, not by what theory promises.
//
// # Few pieces
//
// [Balance.Deal] starts from the program's division and places flows whole, where no channel gets more than the
// optimum and a slack; what fits nowhere whole is cut where a path is full. Where that leads nowhere, the smallest
// shares of a demand are moved to its other paths that have room, and its flows are laid end to end over those that
// are left: one cut less than there are paths, as McNaughton (1959) has it for paths that are alike. A basic solution
// of the program has at most one cut for each channel that is full. Ours is none and may have more. To find the
// least number is NP-hard, since it is for two alike paths already (PARTITION).
package nonminimal
