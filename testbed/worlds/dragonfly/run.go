package dragonfly

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric/dragonfly"
	"github.com/ethereal-fabric/ethereal/hostagent/nonminimal"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// tolerance is how near to its bound a linear program is solved.
const tolerance = 0.005

// Result is what became of a run. Times are in microseconds.
type Result struct {
	Experiment string `json:"experiment"`
	Failure    string `json:"failure"`
	Traffic    string `json:"traffic"`
	Scheme     string `json:"scheme"`
	Seed       uint64 `json:"seed"`
	Hosts      int    `json:"hosts"`
	Routers    int    `json:"routers"`
	Steps      int    `json:"steps"`

	// Load is the time that the fullest link of each step takes, all steps together: what the
	// collective takes if steps wait for each other and no link is ever idle.
	Load float64 `json:"load_us"`
	// Optimum is the same of the division that the linear program found, over all paths that have a name.
	Optimum float64 `json:"optimum_us"`
	// LoadBound is what no division's Load is below, whatever its paths.
	LoadBound float64 `json:"load_bound_us"`
	// Length is how many links between routers a byte passes, in the mean, of those that leave their router.
	Length float64 `json:"length"`
	// Pieces is the most that a host has of all steps, and Flows of how many flows; 0: packets.
	Pieces int `json:"pieces_per_host_max"`
	Flows  int `json:"flows_per_host_max"`
	// Cuts is how many pieces all hosts have more than they have flows that leave their router.
	Cuts int `json:"cuts"`
}

// OverBound is the load over its bound.
func (r Result) OverBound() float64 {
	if r.LoadBound <= 0 { // nothing is sent
		return 1
	}
	return r.Load / r.LoadBound
}

// step is one step of a collective.
type step struct {
	flows   []flow
	balance *nonminimal.Balance // over all paths that have a name
}

// run is a traffic on a fabric, for all schemes.
type run struct {
	net   *net
	seed  uint64
	steps []*step
}

// Run carries out all of an experiment, and calls done with each result. It ends early with ctx's error.
func Run(ctx context.Context, e *Experiment, done func(Result)) error {
	f, err := dragonfly.New(e.Fabric)
	if err != nil {
		return err
	}
	schemes := make([]*scheme, 0, len(e.Schemes))
	for _, s := range e.Schemes {
		x, err := newScheme(s)
		if err != nil {
			return fmt.Errorf("dragonfly: %w", err)
		}
		schemes = append(schemes, x)
	}
	for _, failure := range e.Failures {
		var dead []int
		for _, name := range failure.Links {
			l, err := f.LinkByName(name)
			if err != nil {
				return err
			}
			dead = append(dead, l)
		}
		n := newNet(f, dead)
		for _, t := range e.Traffic {
			for _, seed := range e.Seeds {
				r, err := newRun(ctx, n, t, seed)
				if err != nil {
					return fmt.Errorf("dragonfly: %s, %s: %w", failure.Name, t.Name(), err)
				}
				for i, s := range schemes {
					if err := ctx.Err(); err != nil {
						return err
					}
					res, err := r.carryOut(s)
					if err != nil {
						return fmt.Errorf("dragonfly: %s, %s, %s: %w", failure.Name, t.Name(), e.Schemes[i], err)
					}
					res.Experiment, res.Failure, res.Traffic, res.Scheme = e.Name, failure.Name, t.Name(), e.Schemes[i].String()
					done(res)
				}
			}
		}
	}
	return nil
}

// newRun solves the linear programs of a traffic.
func newRun(ctx context.Context, n *net, t Traffic, seed uint64) (*run, error) {
	job, err := collective.New(t.spec(n.f, seed))
	if err != nil {
		return nil, err
	}
	r := &run{net: n, seed: seed}
	for p := range job.Phases() {
		var flows []flow
		for s := range job.Traffic(p) {
			flows = append(flows, flow{s.Src, s.Dst, s.Bytes})
		}
		st := &step{flows: flows}
		for _, old := range r.steps {
			if slices.Equal(old.flows, flows) {
				st.balance = old.balance
			}
		}
		if st.balance == nil {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := n.parted(flows); err != nil {
				return nil, err
			}
			p, _ := n.problem(flows, dragonfly.AllPaths)
			st.balance = p.Balance(tolerance)
		}
		r.steps = append(r.steps, st)
	}
	return r, nil
}

// carryOut divides all steps by a scheme.
func (r *run) carryOut(s *scheme) (Result, error) {
	res := Result{
		Seed: r.seed, Hosts: r.net.f.Hosts(), Routers: r.net.f.Routers(), Steps: len(r.steps),
	}
	pieces, flows := make([]int, res.Hosts), make([]int, res.Hosts)
	hops, bytes, whole := 0.0, 0.0, 0
	for _, st := range r.steps {
		parts, err := r.assign(s, st)
		if err != nil {
			return Result{}, err
		}
		loads := r.net.loads(st.flows, parts)
		for c, l := range loads {
			if l > 0 && r.net.isDead(int32(c)) {
				return Result{}, fmt.Errorf("bytes over dead link %s", r.net.f.LinkName(c/2))
			}
		}
		res.Load += micros(slices.Max(loads))
		res.Optimum += micros(st.balance.Max)
		res.LoadBound += micros(st.balance.Bound)
		for _, x := range st.flows {
			flows[x.src]++
			if r.net.f.RouterOf(x.src) != r.net.f.RouterOf(x.dst) {
				whole++
			}
		}
		for _, p := range parts {
			pieces[st.flows[p.flow].src]++
			hops += p.bytes * float64(len(p.path))
			bytes += p.bytes
		}
	}
	res.Flows = slices.Max(flows)
	if !s.sprays() {
		res.Pieces = slices.Max(pieces)
		for _, n := range pieces {
			res.Cuts += n
		}
		res.Cuts -= whole
	}
	if bytes > 0 {
		res.Length = hops / bytes
	}
	return res, nil
}

func micros(t float64) float64 { return t / 1e6 }
