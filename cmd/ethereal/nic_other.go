//go:build !linux

package main

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/testbed/hostprocess"
)

var errVerbs = errors.New("an RDMA device in software needs Linux")

// softwareNIC is the RDMA device in software.
type softwareNIC struct{}

func (softwareNIC) add(*hostagentFlags, *hostprocess.ProcessConfig) error { return errVerbs }

func (softwareNIC) serve(*hostagentFlags, []string) (end func(), err error) { return nil, errVerbs }
