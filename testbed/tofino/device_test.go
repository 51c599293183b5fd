package tofino

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ethereal-fabric/ethereal/p4src"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// TestDevice: a switch forwards by the model: packets leave by the port that the model says, which the stand-in counts
// up.
func TestDevice(t *testing.T) {
	mirror, err := NewMirror(startStandIn(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := process.Config{Model: mirror}
	var far []*porttest.Memory
	for n := range uint32(3) {
		near, end := porttest.Pair(16)
		cfg.Ports = append(cfg.Ports, process.PortConfig{Number: n, Name: string(rune('a' + n)), Port: near})
		far = append(far, end)
	}
	for _, c := range []struct {
		set  func(*process.Config)
		want string
	}{
		{func(c *process.Config) { c.Kernel = true }, "the model forwards, or the kernel"},
		{func(c *process.Config) { c.QueueRate = 1 }, "the model's queues have no rate"},
		{func(c *process.Config) { c.Ports = []process.PortConfig{{Number: 63, Name: "d", Port: far[0]}} }, "the model's ports are 0 to 62"},
	} {
		wrong := cfg
		c.set(&wrong)
		if _, err := process.New(wrong); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want: %s", err, c.want)
		}
	}
	d, err := process.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-ran, d.Close()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	if err := d.Install(p4src.V1ModelJSON(), p4src.V1ModelP4Info()); err != nil {
		t.Fatal(err)
	}
	poller, err := port.NewPoller()
	if err != nil {
		t.Fatal(err)
	}
	defer poller.Close() //nolint:errcheck // nothing is lost
	if err := poller.Add(far[2], 2); err != nil {
		t.Fatal(err)
	}
	sent := []byte("any packet whatsoever")
	if n := far[1].Send([][]byte{sent}); n != 1 {
		t.Fatal("port 1 takes no packet")
	}
	var got []byte
	for end := time.Now().Add(10 * time.Second); far[2].Receive(1, func(b []byte) { got = append(got, b...) }) == 0; {
		if time.Now().After(end) {
			t.Fatal("nothing leaves by port 2")
		}
		if _, err := poller.Wait(time.Until(end), nil); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		t.Errorf("packet (-want +got):\n%s", diff)
	}
}
