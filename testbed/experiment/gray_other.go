//go:build !linux

package experiment

import "errors"

// grayer takes Linux.
type grayer struct{}

func (grayer) set(string, []string, float64) error { return errors.New("gray loss takes Linux") }
func (grayer) heal(string) error                   { return nil }
