// Package fakeibv stands in for libibverbs and libmlx5 in tests of package
// verbs built with its tag: C functions of the same types, which keep what they
// were called with. Test files themselves cannot contain C. Not safe for
// concurrent use.
package fakeibv
