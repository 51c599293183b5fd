//go:build !linux

package main

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostprocess"
)

func (f *hostagentFlags) addDevice(*hostprocess.ProcessConfig) error {
	return errors.New("--verbs needs Linux")
}
