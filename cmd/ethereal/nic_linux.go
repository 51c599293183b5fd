package main

import (
	"context"

	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostprocess"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/nic"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/soft"
)

// addDevice has a host be an RDMA device for the programs that find it at --listen-verbs.
func (f *hostagentFlags) addDevice(cfg *hostprocess.ProcessConfig) error {
	lis, err := listen.Packets("--listen-verbs", f.verbs)
	if err != nil {
		return err
	}
	payload := f.payload
	if payload == 0 {
		payload = 1024
	}
	var device *nic.NIC
	cfg.Device = func(r *hostprocess.Rank) hostprocess.Device {
		device = nic.New(nic.Config{Fabric: cfg.Fabric, Host: cfg.Host, Payload: payload, Log: cfg.Log}, r)
		return device
	}
	cfg.Serve = func(ctx context.Context, s *soft.Shell) error { return device.Serve(ctx, lis, s) }
	return nil
}
