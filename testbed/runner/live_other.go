//go:build !linux

package runner

import (
	"context"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// Live is a world that can run nothing: it needs Linux.
type Live struct{}

// NewLive returns that world.
func NewLive(live.Base) *Live { return &Live{} }

// Close does nothing.
func (*Live) Close() {}

// Run is a [Run] that fails.
func (*Live) Run(context.Context, scenario.Run, scenario.Observer) (*report.Result, error) {
	return nil, live.ErrLinux
}
