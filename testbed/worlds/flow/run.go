package flow

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/virtual"
)

// Run carries out one run. If ctx ends early it returns the partial result, marked as not finished, with ctx's
// error. It ignores the observer.
func Run(ctx context.Context, run scenario.Run, _ scenario.Observer) (*report.Result, error) {
	began := time.Now() // of the machine, for the report only
	if err := run.Ready(); err != nil {
		return nil, fmt.Errorf("flow: %v: %w", run, err)
	}
	w, err := newWorld(run)
	if err != nil {
		return nil, fmt.Errorf("flow: %v: %w", run, err)
	}
	err = w.simulate(ctx)
	if err != nil && !errors.Is(err, context.Cause(ctx)) {
		return nil, fmt.Errorf("flow: %v: %w", run, err)
	}
	r := &report.Result{
		Scenario: run.Scenario.Name, Scheme: run.Scheme.String(), Collective: run.Collective.Name(),
		EqualHashes: run.Scenario.Switch.EqualHashes, Notifier: string(run.Notifier), Seed: run.Seed, Failure: run.Failure.Name,
		Bytes: int64(run.Collective.Bytes), Fabric: w.f.Spec(),
		Finished: w.finished, End: report.Deadline, EndTime: w.now.Micros(),
		SimEvents: w.handled + w.steps,
	}
	switch {
	case w.finished:
		us := w.end.Micros()
		r.CCT, r.End, r.EndTime = &us, report.Finished, us
	case err != nil:
		r.End = report.Interrupted
	case w.now < run.Scenario.Deadline:
		r.End = report.Stalled
	}
	r.Bound, r.StepBound = virtual.Bounds(run, w.job)
	r.BusBandwidth = virtual.BusBandwidth(run, r.CCT)
	w.uplinks(r)
	for _, h := range w.hosts {
		if h != nil {
			r.QPsPerHostMax = max(r.QPsPerHostMax, h.core.PeakQPs())
		}
	}
	// There is no event log to hash: the result's values are hashed instead.
	sum := sha256.New()
	for _, x := range []int64{int64(w.end), int64(w.steps), int64(w.handled)} {
		_ = binary.Write(sum, binary.BigEndian, x) // never fails
	}
	r.EventsSHA256 = hex.EncodeToString(sum.Sum(nil))
	r.WallMS = float64(time.Since(began).Microseconds()) / 1000
	return r, err
}

// uplinks fills in the ToR uplinks' loads. Bytes in flight at an early end are not counted.
func (w *world) uplinks(r *report.Result) {
	n, sum := 0, 0.0
	for t := range w.f.ToRs() {
		tor := w.f.Node(w.f.ToRID(t))
		for p := tor.FirstUplink(); int(p) <= tor.Ports(); p++ {
			bytes := w.carried[2*tor.Link(p)]
			r.UplinkBytesMax = max(r.UplinkBytesMax, int64(math.Round(bytes)))
			sum += bytes
			n++
		}
	}
	r.UplinkBytesMean = sum / float64(max(n, 1))
}

// capacity returns a link's rate minus the acknowledgements of a link with equal data in both directions, in bytes per
// picosecond.
func (w *world) capacity(rate fabric.Rate) float64 {
	s := w.run.Scenario
	data := float64(int64(s.Host.Payload) + w.header)
	share := data / (data + float64(w.ack)/float64(max(s.Host.AckEvery, 1)))
	return float64(rate) / 8 / float64(fabric.Second) * share
}
