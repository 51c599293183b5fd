//go:build !linux

package gray

import "errors"

// Losses need Linux.
type Losses struct{}

// Set returns an error on this system.
func (*Losses) Set(string, []string, float64) error { return errors.New("gray: loss takes Linux") }

// Heal does nothing.
func (*Losses) Heal(string) error { return nil }
