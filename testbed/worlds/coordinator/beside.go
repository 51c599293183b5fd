package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/host"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// settingsTimeout is the time in which hosts take their own settings again; a host that hangs does not.
const settingsTimeout = 10 * time.Second

// Program runs a program to its end, and returns its error. It calls begun once, at the moment from which the run's
// times are counted.
type Program func(ctx context.Context, begun func()) error

// ErrProgram is wrapped by the error of a program that failed.
var ErrProgram = errors.New("the program failed")

// Beside carries out a run's acts beside a program, which uses the hosts' RDMA devices in the place of the run's
// collective. The hosts keep their settings, except for scheme and seed. With an error that is an [ErrProgram] there is
// a result, too.
func (s *Session) Beside(ctx context.Context, run scenario.Run, opt Options, program Program) (result *report.Result, err error) {
	set, err := Settings(run)
	if err != nil {
		return nil, err
	}
	own := host.Settings{ResendOnFlip: true, TailProbe: true}
	beside := own
	beside.Seed, beside.Scheme, beside.Params, beside.NoReports = run.Seed, set.Scheme, set.Params, set.NoReports
	if err := s.Configure(ctx, beside); err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settingsTimeout)
		defer cancel()
		err = errors.Join(err, s.Configure(ctx, own))
	}()
	r := &sessionRun{s: s, run: run, opt: opt, cut: map[fabric.LinkID]bool{}, notices: make(chan actResult, len(opt.Acts))}
	before, err := r.count(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.readClocks(ctx, opt.Clock); err != nil {
		return nil, err
	}
	started := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	begun, ended, gone := make(chan struct{}), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(gone)
		err := program(ctx, sync.OnceFunc(func() { close(begun) }))
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrProgram, err)
		}
		ended <- err
	}()
	defer func() { cancel(); <-gone }()
	if err := s.processEventsDuring(func() error {
		select {
		case <-begun:
			return nil
		case err := <-ended:
			select {
			case <-begun: // and ended since
				ended <- err
				return nil
			default:
			}
			return cmp.Or(err, errors.New("the program ended before its start"))
		}
	}); err != nil {
		return nil, err
	}
	r.start = opt.Clock()
	if opt.Started != nil {
		opt.Started(r.start)
	}
	end, finished, failed := r.drive(ctx, ended)
	if failed != nil && !errors.Is(failed, ErrProgram) {
		return nil, failed
	}
	if n := len(opt.Acts) - r.actsDone; failed == nil && n > 0 {
		failed = fmt.Errorf("the program ended after %v, before %d of the %d steps",
			time.Duration(end-r.start).Round(time.Millisecond), n, len(opt.Acts))
	}
	late, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer stop()
	result, err = r.measure(late, before, end, finished, false)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	result.Collective, result.Bytes = "program", 0
	result.WallMS = float64(time.Since(started).Microseconds()) / 1000
	return result, failed
}
