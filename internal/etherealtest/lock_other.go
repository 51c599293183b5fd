//go:build !unix

package etherealtest

// lock does nothing: tests that run side by side may both build.
func lock(string) (func(), error) { return func() {}, nil }
