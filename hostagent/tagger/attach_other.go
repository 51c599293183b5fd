//go:build !linux

package tagger

import (
	"time"

	"github.com/cilium/ebpf"
)

// Only Linux supports attaching.

type noDevice struct{}

func device(string) (noDevice, error) { return noDevice{}, ebpf.ErrNotSupported }

func attachTCX(*ebpf.Program, noDevice, string) (attachment, error) { return nil, ebpf.ErrNotSupported }

func attachClsact(*ebpf.Program, noDevice, bool) (attachment, error) {
	return nil, ebpf.ErrNotSupported
}

func monotonic() (time.Duration, error) { return 0, ebpf.ErrNotSupported }

func pinDirectory(dir string) (string, error) { return dir, nil }
