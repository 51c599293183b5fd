// Package cases draws random scenarios, runs them in the virtual world and checks invariants.
//
// # A case
//
// [Draw] returns the case of a seed and an index: a whole scenario as YAML, which `ethereal run` takes, with Ethereal
// and fair opponents. [DrawKind] replaces the fabric, and with it the places of failures. The same seed and index
// give the same text for ever. Each part of a case (fabric, switches, hosts, collective, failure) has a generator for
// itself: PCG, seeded with the SHA-256 of "ethereal cases", [Version], the seed, the index and the part's name. So one
// part may draw more without changing the others. Draws are integers, and none depends on the code under test: times of
// events are shares of this package's estimate of the completion time. A change of any case's text needs a new Version;
// TestFixed compares with a recorded digest.
//
// # Figures
//
// [Evaluate] runs Ethereal on the healthy fabric and with the failure, and the opponents on the fabric that the case is
// about. [Record] has the measurements; what is derived from them (references, violations, tables) is computed when it
// is read, so that two programs' files are compared by one rule.
//
// # Classes
//
// A case without failure is healthy. Cuts are divided by what notifies hosts: quench (detected within 30 us), gnmi
// (likewise), late (detected after 100 us to 10 ms) and nobody. Flapping links, gray links and degraded links have a
// class each. The class other has what can part hosts for a while, combinations, and events of controllers and agents.
package cases

// Version is part of the seed of every case: another version draws other cases.
const Version = 2
