//go:build !linux

package ebpf

import "errors"

func attachClsact(int) (Hook, error) { return nil, errors.ErrUnsupported }
