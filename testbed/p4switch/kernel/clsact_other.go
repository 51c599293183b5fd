//go:build !linux

package kernel

import "errors"

func attachClsact(int) (Hook, error) { return nil, errors.ErrUnsupported }
