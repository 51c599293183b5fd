// Package fakeibv replaces libibverbs and libmlx5 in tests of package verbs built with its tag. Its C functions
// have the same types and record their arguments. Test files themselves cannot contain C. Not safe for concurrent
// use.
package fakeibv
