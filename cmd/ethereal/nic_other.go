//go:build !linux

package main

import (
	"errors"

	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostprocess"
)

var errVerbs = errors.New("an RDMA device in software needs Linux")

func (f *hostagentFlags) addDevice(*hostprocess.ProcessConfig) error { return errVerbs }

func (f *hostagentFlags) serveCommand([]string) (end func(), err error) { return nil, errVerbs }
