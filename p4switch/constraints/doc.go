// Package constraints reads p4-constraints (github.com/p4lang/p4-constraints), the language of the annotations
// @entry_restriction of tables and @action_restriction of actions, and checks entries against them.
//
//	c, err := constraints.Entry("ip::mask != 0 -> ether_type == 0x0800", []constraints.Variable{
//		{Name: "ether_type", Kind: constraints.Exact, Width: 16},
//		{Name: "ip", Kind: constraints.Ternary, Width: 32},
//	})
//	err = c.Check(priority, values) // nil, or what the entry breaks
//
// A constraint is immutable and may be checked from several goroutines. Errors quote the part of the constraint
// that the entry breaks. Check tests the constraint alone: the caller must know that values fit and have no bits
// outside their masks.
package constraints
