package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/ethereal-fabric/ethereal/testbed/endpoint/hostprocess"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/nic"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/soft"
)

// addDevice has a host be an RDMA device for the programs that find it at --verbs.
func (f *hostagentFlags) addDevice(cfg *hostprocess.ProcessConfig) error {
	lis, err := listenPackets("--verbs", f.verbs)
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

// listenPackets listens on unix:PATH for whole messages, from programs of the same user.
func listenPackets(flag, addr string) (*net.UnixListener, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return nil, fmt.Errorf("%s: %q is not unix:PATH", flag, addr)
	}
	at := &net.UnixAddr{Name: path, Net: "unixpacket"}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		// Left behind by a process that was killed, if nobody answers.
		if c, err := net.DialUnix("unixpacket", nil, at); err == nil {
			return nil, errors.Join(fmt.Errorf("%s: somebody serves at %s already", flag, path), c.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
	}
	lis, err := net.ListenUnix("unixpacket", at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", flag, err), lis.Close())
	}
	return lis, nil
}
