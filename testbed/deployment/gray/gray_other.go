//go:build !linux

package gray

import "errors"

// Losses take Linux.
type Losses struct{}

// Set is not possible here.
func (*Losses) Set(string, []string, float64) error { return errors.New("gray: loss takes Linux") }

// Heal does nothing.
func (*Losses) Heal(string) error { return nil }
