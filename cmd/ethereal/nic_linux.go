package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/roce/device"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/testbed/hostprocess"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// softwareNIC is the RDMA device in software.
type softwareNIC struct{}

// add has a host be an RDMA device for the programs that find it at --listen-verbs.
func (softwareNIC) add(f *hostagentFlags, cfg *hostprocess.ProcessConfig) error {
	lis, err := listen.Packets("--listen-verbs", f.verbs)
	if err != nil {
		return err
	}
	payload := f.payload
	if payload == 0 {
		payload = 1024
	}
	var nic *device.NIC
	cfg.Device = func(r *hostprocess.Rank) hostprocess.Device {
		nic = device.New(device.Config{Fabric: cfg.Fabric, Host: cfg.Host, Payload: payload, Interface: f.interfaces[0], Log: cfg.Log}, r)
		return nic
	}
	cfg.Serve = func(ctx context.Context, s *soft.EventLoop) error { return nic.Serve(ctx, lis, s) }
	return nil
}

// oneHostFabric is the fabric of a device that no other host has to do with.
const oneHostFabric = "kind: leaf-spine\ntors: 2\nspines: 1\nhosts_per_tor: 1\n"

// serve starts a command with the software RDMA device. If no flag names a fabric, the device is the only one of the
// machine.
func (softwareNIC) serve(f *hostagentFlags, command []string) (end func(), err error) {
	lib := live.VerbsLibrary()
	if lib == "" {
		return nil, errors.New("host nic: no libethereal-verbs.so beside this program: make verbs builds it; the package libethereal-verbs has it")
	}
	dir, err := os.MkdirTemp("", "ethereal-nic-")
	if err != nil {
		return nil, fmt.Errorf("host nic: %w", err)
	}
	end = func() { os.RemoveAll(dir) } //nolint:errcheck // all that is there is ours
	if f.fabric == "" {
		f.fabric = filepath.Join(dir, "fabric.yaml")
		if err := os.WriteFile(f.fabric, []byte(oneHostFabric), 0o600); err != nil {
			end()
			return nil, fmt.Errorf("host nic: %w", err)
		}
		f.host, f.alone = cmp.Or(f.host, "h0"), true
	}
	if len(f.interfaces) == 0 {
		f.interfaces = []string{"lo"}
	}
	f.verbs = cmp.Or(f.verbs, "unix:"+filepath.Join(dir, "verbs"))
	preload := lib
	if given := os.Getenv("LD_PRELOAD"); given != "" {
		preload += " " + given
	}
	f.program = func(ctx context.Context) error {
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Env = append(os.Environ(), "LD_PRELOAD="+preload, "ETHEREAL_NIC="+f.verbs)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
		c.WaitDelay = 5 * time.Second
		err := c.Run()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return fmt.Errorf("host nic: %w", err)
		}
		return programExitCode(c.ProcessState.ExitCode())
	}
	return end, nil
}
