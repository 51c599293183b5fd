//go:build !linux

package experiment

import (
	"context"
	"log/slog"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// NewLive returns a world in which nothing can be run: it takes Linux.
func NewLive(string, *slog.Logger) World { return liveWorld{} }

type liveWorld struct{}

func (liveWorld) Name() string { return Live }

func (liveWorld) Run(context.Context, *Experiment, *Record) (*report.Result, error) {
	return nil, live.ErrLinux
}
