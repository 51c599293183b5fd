//go:build !linux

package deployment

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// limiter needs Linux.
type limiter struct{}

func (limiter) set(string, []string, fabric.Rate) error {
	return errors.New("rates of links take Linux")
}
func (limiter) heal(string) error { return nil }
