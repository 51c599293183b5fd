//go:build !linux || !(amd64 || arm64)

package hugepages

// Prefer does nothing: only Linux is asked.
func Prefer(int) error { return nil }
