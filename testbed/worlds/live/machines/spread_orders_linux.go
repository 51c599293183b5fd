package machines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	placement "github.com/ethereal-fabric/ethereal/testbed/machines"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// Status says how a fabric on several machines is.
type Status struct {
	Error      string          `json:"error,omitempty"`
	Machines   []MachineStatus `json:"machines,omitempty"`
	Controller string          `json:"controller,omitempty"`
	Lost       []string        `json:"lost,omitempty"` // processes that ended though they were not to, and how
}

// MachineStatus says how one of the machines is.
type MachineStatus struct {
	Name    string     `json:"name"`
	Address netip.Addr `json:"address"`
	Nodes   []string   `json:"nodes"`
	Lost    string     `json:"lost,omitempty"` // why; empty: it is not
}

func (s *spread) status(ctx context.Context) (out Status) {
	for m, at := range s.cfg.Machines {
		st := MachineStatus{Name: at.Name, Address: at.Address, Nodes: s.nodes(m)}
		if r := s.part(m); !s.isUp(m) {
			st.Lost = "the fabric is coming down"
			select {
			case <-r.lost:
				st.Lost = r.cause.Error()
			default:
			}
		} else if lost, err := r.processesLost(ctx); err != nil {
			out.Lost = append(out.Lost, fmt.Sprintf("machine %s: its processes are unknown: %v", at.Name, err))
		} else {
			for _, text := range lost {
				out.Lost = append(out.Lost, fmt.Sprintf("machine %s: %s", at.Name, text))
			}
		}
		out.Machines = append(out.Machines, st)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Controller = "runs"
	if s.controller == nil {
		out.Controller = "was ended"
	} else if err := s.controller.Ended(); err != nil {
		out.Controller = err.Error()
		out.Lost = append(out.Lost, err.Error())
	}
	return out
}

// serveOrder carries out an order, a line of JSON, and answers by another.
func (s *spread) serveOrder(ctx context.Context, c net.Conn) {
	line, err := bufio.NewReader(io.LimitReader(c, 1<<16)).ReadBytes('\n')
	var w deployment.Order
	if err == nil {
		err = json.Unmarshal(line, &w)
	}
	var answer Status
	if err == nil {
		switch w.Do {
		case "status":
			answer = s.status(ctx)
		case "down": // below
		default:
			err = s.do(ctx, w)
		}
	}
	if err != nil {
		answer.Error = err.Error()
	}
	json.NewEncoder(c).Encode(answer) //nolint:errcheck // who asked is gone
	if err == nil && w.Do == "down" { // not before the answer, which would be lost with this process
		select {
		case s.down <- struct{}{}:
		default:
		}
	}
}

// do does what an experiment asks for, on the machines that it concerns.
func (s *spread) do(ctx context.Context, w deployment.Order) error {
	concerned := map[int]bool{}
	switch w.Do {
	case "controller-down":
		s.mu.Lock()
		p := s.controller
		s.controller = nil
		s.mu.Unlock()
		if p == nil {
			return errors.New("live: there is no controller")
		}
		p.Kill()
		return nil
	case "controller-up":
		s.mu.Lock()
		p := s.controller
		s.mu.Unlock()
		if p != nil {
			return nil
		}
		return s.startController(ctx, live.Ready)
	case "rejoin":
		return s.rejoin(ctx, w.Name)
	case "gray", "rate", "link-down", "link-up":
		id, err := s.cfg.Fabric.LinkByName(w.Name)
		if err != nil {
			return err
		}
		l := s.cfg.Fabric.Link(id)
		concerned[s.place.At[l.A.Node]], concerned[s.place.At[l.B.Node]] = true, true
	case "node-down", "node-up", "agent-down", "agent-up":
		id, err := s.cfg.Fabric.NodeByName(w.Name)
		if err != nil {
			return err
		}
		concerned[s.place.At[id]] = true
	default:
		return fmt.Errorf("live: %q cannot be done here", w.Do)
	}
	var errs []error
	for m := range concerned {
		errs = append(errs, s.part(m).do(ctx, w))
	}
	if err := errors.Join(errs...); err != nil || w.Do != "node-up" {
		return err
	}
	return s.settled(ctx, live.Ready)
}

// rejoin starts the part of a machine again that was lost, and waits until the controller has its switches in hand.
func (s *spread) rejoin(ctx context.Context, name string) error {
	m := slices.IndexFunc(s.cfg.Machines, func(at Machine) bool { return at.Name == name })
	if m < 0 {
		return fmt.Errorf("live: no machine of this fabric is called %q", name)
	}
	s.mu.Lock()
	busy, old := s.rejoining, s.parts[m]
	s.rejoining = true
	s.mu.Unlock()
	if busy {
		return errors.New("live: a machine is being taken back already")
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rejoining = false
	}()
	select {
	case <-old.lost:
	default:
		return fmt.Errorf("live: machine %s is not lost", name)
	}
	<-old.ended
	p, err := s.plan(m)
	if err != nil {
		return err
	}
	r, err := s.startPart(m)
	if err != nil {
		return err
	}
	serves := make(chan struct{})
	go s.follow(m, r, p, func() { close(serves) })
	limit := time.NewTimer(2 * live.StartLimit)
	defer limit.Stop()
	select {
	case <-serves:
	case <-r.lost:
		return fmt.Errorf("live: machine %s: its part did not start: %w", name, r.cause)
	case <-limit.C:
		r.close()
		return fmt.Errorf("live: machine %s does not serve within %v; its log is %s", name, 2*live.StartLimit, s.partLog(m))
	case <-ctx.Done():
		r.close()
		return ctx.Err()
	}
	s.mu.Lock()
	closing := s.closing
	if !closing {
		s.parts[m] = r
	}
	s.mu.Unlock()
	if closing {
		r.close()
		return errors.New("live: the fabric is coming down")
	}
	s.carriersOf(m)
	return s.settled(ctx, live.Ready)
}

// carriersOf gives the ends of all links to a machine that is back the carriers that they have of each other.
func (s *spread) carriersOf(m int) {
	for _, id := range placement.Crossing(s.cfg.Fabric, s.place.At) {
		l := s.cfg.Fabric.Link(id)
		a, b := s.place.At[l.A.Node], s.place.At[l.B.Node]
		if a != m && b != m {
			continue
		}
		other := a + b - m
		s.mu.Lock()
		dark := s.dark[cableEnd{id, other}]
		s.mu.Unlock()
		if dark {
			s.setCarrier(m, live.Cable{Link: id, Up: false})
		}
		s.carrier(m, live.Cable{Link: id, Up: true})
	}
}

// close ends the controller and all parts.
func (s *spread) close() {
	s.mu.Lock()
	s.closing = true
	p, parts := s.controller, slices.Clone(s.parts)
	s.mu.Unlock()
	if p != nil {
		p.Stop(context.Background(), 2*time.Second)
	}
	for _, r := range parts {
		r.close()
	}
	for _, r := range parts {
		<-r.ended
	}
}

// Ask asks the fabric on several machines whose folder this is: "status", "rejoin" with a machine's name, or
// "down", which waits until it is.
func Ask(dir, what, name string) (out Status, err error) {
	if err := deployment.Own(dir); err != nil {
		return out, fmt.Errorf("live: no fabric on several machines is up with the folder %s (--dir): %w", dir, err)
	}
	c, err := net.Dial("unix", filepath.Join(dir, ControlSocket))
	if err != nil {
		return out, fmt.Errorf("live: no fabric on several machines is up with the folder %s (--dir): %w", dir, err)
	}
	defer c.Close() //nolint:errcheck // all is said
	if err = json.NewEncoder(c).Encode(deployment.Order{Do: what, Name: name}); err == nil {
		err = json.NewDecoder(c).Decode(&out)
	}
	if err == nil && out.Error != "" {
		err = errors.New(out.Error)
	}
	if err == nil && what == "down" {
		err = live.WaitFor(context.Background(), 4*endTime, "the fabric is down", func() (bool, error) {
			lock, free, err := live.LockFolder(dir)
			if lock != nil {
				lock.Close() //nolint:errcheck // only locked
			}
			return free, err
		})
	}
	if err != nil {
		return out, fmt.Errorf("live: %w", err)
	}
	return out, nil
}
