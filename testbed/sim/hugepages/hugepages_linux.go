//go:build linux && (amd64 || arm64)

package hugepages

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// Prefer asks the kernel to use huge pages for the next n bytes by which the heap grows, but under a memory limit
// (GOMEMLIMIT) for at most a quarter of the limit. It reserves address space, not memory: the heap later takes what it
// needs, in whole huge pages (usually 2 MB). After an error the program runs as without the call.
func Prefer(n int) error {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		n = min(n, int(limit/4))
	}
	if n < 1 {
		return nil
	}
	if err := addressSpaceLeft(n + n/4); err != nil {
		return err
	}
	err := growAndMark(n)
	runtime.GC() // gives the span back to the heap, which takes it first
	return err
}

// addressSpaceLeft reports whether the kernel gives so many bytes of address space: it refuses
// under a limit (ulimit -v) or where it must not promise more than it has, and Go
// ends a program to which it does.
func addressSpaceLeft(n int) error {
	span, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("hugepages: %d MB of address space: %w", n>>20, err)
	}
	return unix.Munmap(span)
}

// growAndMark makes the heap grow by a span that nobody touches, and marks it. The mark
// stays with the addresses when the span is free.
//
//go:noinline
func growAndMark(n int) error {
	span := make([]byte, n)
	if err := unix.Madvise(span, unix.MADV_HUGEPAGE); err != nil {
		return fmt.Errorf("hugepages: madvise: %w", err)
	}
	return nil
}
