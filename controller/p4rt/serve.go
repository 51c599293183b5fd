package p4rt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errUnanswered ends a stream whose bid got no answer.
var errUnanswered = status.Error(codes.DeadlineExceeded, "the bid is not answered")

// serve opens a stream and carries out the lifecycle's steps, until the stream ends.
func (s *Session) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unanswered := time.AfterFunc(s.cfg.OpenTimeout, func() { cancel(errUnanswered) })
	defer unanswered.Stop()
	stream, err := s.client.StreamChannel(ctx, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("p4rt: opening the stream: %w", causeOf(ctx, err))
	}
	s.setStream(stream)
	defer s.setStream(nil)
	if err := s.sendElectionID(stream); err != nil {
		return causeOf(ctx, err)
	}

	arbitrations := make(chan *p4.MasterArbitrationUpdate)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				err = status.Error(codes.Unavailable, "the switch closed the stream")
			}
			if err != nil {
				return fmt.Errorf("p4rt: stream: %w", err)
			}
			a := m.GetArbitration()
			if a == nil {
				s.receiveOther(m)
				continue
			}
			unanswered.Stop()
			s.setPrimary(codes.Code(a.GetStatus().GetCode()) == codes.OK)
			select {
			case arbitrations <- a:
			case <-ctx.Done():
				return nil
			}
		}
	})
	g.Go(func() error { return s.keepAlive(ctx) })
	g.Go(func() error {
		defer cancel(nil) // ends the stream, for the receiver
		return s.runStream(ctx, stream, arbitrations, func() { unanswered.Reset(s.cfg.OpenTimeout) })
	})
	return causeOf(ctx, g.Wait())
}

// receiveOther processes a message of the stream that is not about arbitration.
func (s *Session) receiveOther(m *p4.StreamMessageResponse) {
	if e := m.GetError(); e != nil {
		s.cfg.Log.Warn("stream error", "code", codes.Code(e.GetCanonicalCode()), "message", e.GetMessage())
		return
	}
	if s.cfg.OnPacket == nil || m.GetPacket() == nil {
		return
	}
	if in, ok := s.cfg.Pipeline.schema.PacketIn(m.GetPacket()); ok {
		s.cfg.OnPacket(in)
	}
}

// causeOf returns the reason for which a context was ended, if any, instead of the resulting error.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(cause, errUnanswered) {
		return cause
	}
	return err
}

func (s *Session) sendElectionID(stream p4.P4Runtime_StreamChannelClient) error {
	err := s.send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Arbitration{
		Arbitration: &p4.MasterArbitrationUpdate{DeviceId: s.cfg.DeviceID, ElectionId: s.life.Bid().Proto()},
	}})
	if errors.Is(err, io.EOF) {
		_, err = stream.Recv() // why the stream ended
	}
	if err != nil {
		return fmt.Errorf("p4rt: bidding: %w", err)
	}
	return nil
}

// keepAlive checks at intervals that the switch answers. It uses a call, since servers end connections with too
// many HTTP/2 pings.
func (s *Session) keepAlive(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, s.cfg.KeepAlive)
		_, err := s.client.Capabilities(call, &p4.CapabilitiesRequest{})
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case s.calling(): // some targets handle one call at a time
		case status.Code(err) == codes.DeadlineExceeded, status.Code(err) == codes.Unavailable:
			return fmt.Errorf("p4rt: the switch does not answer: %w", err)
		}
	}
}

// runStream runs the session while its stream is open. It calls bidding before it sends an election id.
func (s *Session) runStream(
	ctx context.Context, stream p4.P4Runtime_StreamChannelClient, arbitrations <-chan *p4.MasterArbitrationUpdate, bidding func(),
) error {
	installed := false
	step, phase := Idle, s.life.Phase()
	for {
		select { // arbitration comes first
		case a := <-arbitrations:
			step = s.arbitration(a)
		default:
		}
		if p := s.life.Phase(); p != phase {
			phase = p
			s.report(nil)
		}
		var err error
		switch step {
		case Idle:
			step, err = s.awaitArbitration(ctx, arbitrations)
		case Bid:
			bidding()
			step, err = Idle, s.sendElectionID(stream)
		case Check:
			err = s.call(ctx, s.cfg.CallTimeout, func(ctx context.Context) error {
				have, err := readPipeline(ctx, s.client, s.cfg.DeviceID)
				if err != nil {
					return err
				}
				installed = have.GetP4Info() != nil || have.GetCookie() != nil || len(have.GetP4DeviceConfig()) > 0
				step = s.life.PipelineChecked(s.cfg.Pipeline.runs(have))
				return nil
			})
		case Push:
			err = s.call(ctx, s.cfg.PushTimeout, func(ctx context.Context) error {
				return s.cfg.Pipeline.push(ctx, s.client, s.writer(), installed)
			})
			if err == nil {
				s.cfg.Log.Info("pipeline pushed", "cookie", s.cfg.Pipeline.Cookie(), "over_another", installed)
				step = s.life.PipelinePushed()
			}
		case Read:
			step, err = Idle, s.read(ctx)
		}
		if errors.Is(err, errDemoted) {
			step, err = Idle, nil // the arbitration update about it will follow
		}
		if status.Code(rootStatus(err)) == codes.PermissionDenied {
			if s.awaitDemotion(ctx, arbitrations, &step) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
}

// demotionTimeout is the time for which, after a refused call, the report may follow that another controller is
// primary.
const demotionTimeout = time.Second

// awaitDemotion reports whether a call was refused because another controller became primary. The stream may report
// that after the call's answer. It sets the next step.
func (s *Session) awaitDemotion(ctx context.Context, arbitrations <-chan *p4.MasterArbitrationUpdate, step *Step) bool {
	t := time.NewTimer(demotionTimeout)
	defer t.Stop()
	select {
	case a := <-arbitrations:
		*step = s.arbitration(a)
		return !s.life.Phase().Primary()
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

func (s *Session) arbitration(a *p4.MasterArbitrationUpdate) Step {
	code, highest := codes.Code(a.GetStatus().GetCode()), electionOf(a.GetElectionId())
	was := s.life.Phase().Primary()
	step := s.life.Arbitrated(code, highest)
	if is := s.life.Phase().Primary(); is != was {
		s.cfg.Log.Info("role", "primary", is, "highest", highest.String(), "bid", s.life.Bid().String())
		if !is {
			s.refuseTasks()
		}
	}
	return step
}

// awaitArbitration waits for an arbitration update, a task or a timer.
func (s *Session) awaitArbitration(ctx context.Context, arbitrations <-chan *p4.MasterArbitrationUpdate) (Step, error) {
	var due <-chan time.Time
	if at, ok := s.life.Due(); ok {
		t := time.NewTimer(time.Until(at))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return Idle, context.Cause(ctx)
	case a := <-arbitrations:
		return s.arbitration(a), nil
	case <-due:
		return s.life.Tick(time.Now()), nil
	case <-s.wake:
		return s.runTask(ctx)
	}
}

// read reads the tables and begins to serve.
func (s *Session) read(ctx context.Context) error {
	var h Tables
	err := s.call(ctx, s.cfg.CallTimeout, func(ctx context.Context) (err error) {
		h, err = Fetch(ctx, s.client, s.cfg.Pipeline.schema, s.cfg.DeviceID)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	if !s.primary {
		s.mu.Unlock()
		return errDemoted
	}
	s.tenure++
	s.serving = true
	tenure := s.tenure
	s.mu.Unlock()
	s.life.TablesRead()
	if s.cfg.OnTables != nil {
		s.cfg.OnTables(tenure, h)
	}
	return nil
}

// runTask carries out the first waiting task. An error means that the stream has to end.
func (s *Session) runTask(ctx context.Context) (Step, error) {
	s.mu.Lock()
	if !s.serving || len(s.queue) == 0 {
		s.mu.Unlock()
		return Idle, nil
	}
	t := s.queue[0]
	s.queue = s.queue[1:]
	more := len(s.queue) > 0
	if t.reread {
		s.serving = false // updates computed for the old tables are refused
	}
	s.mu.Unlock()
	if t.reread {
		s.refuseTasks()
		return s.life.Reread(), nil
	}
	if more {
		s.wakeLoop()
	}
	err := s.write(ctx, t)
	if err == nil {
		s.life.UpdatesWritten()
		t.done(nil)
		return Idle, nil
	}
	// Whatever failed, the tables are not as assumed.
	s.mu.Lock()
	s.serving = false
	s.mu.Unlock()
	t.done(err)
	s.refuseTasks()
	switch {
	case errors.Is(err, errDemoted):
		return Idle, err
	case streamLost(err):
		return Idle, err
	}
	s.cfg.Log.Error("write refused", "err", err)
	s.life.UpdateRefused(time.Now())
	return Idle, nil
}

// refuseTasks refuses the waiting tasks.
func (s *Session) refuseTasks() {
	s.mu.Lock()
	queue := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, t := range queue {
		t.done(ErrNotServing)
	}
}
