package balance

import (
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/params"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Parameters that give schemes more than their authors published: the means of Ethereal's hosts to detect losses
// and to learn of failures, and the routing of any routed network.
const (
	// lossParam selects the detection of losses of packets that take several paths. timer: by the retransmission
	// timer, or half of it where receivers have a window. late: by time, with probes of tails; see
	// [transport.Config].LateLoss.
	lossParam = "loss"
	// newsParam selects the reaction of hosts that label packets to a notification of a dead link. ignored: none.
	// taken: they use none of its paths.
	newsParam = "news"
	// convergenceParam is the time after a switch notices a dead port until a routing protocol has removed the
	// paths over its link from all switches' tables, where no controller repairs them. The switch itself reroutes
	// around a dead uplink at once.
	convergenceParam = "convergence"

	lossByTime = "late"
	newsTaken  = "taken"
)

// The parameters above, for a scheme's list.
var (
	lossDoc = transport.Param{Name: lossParam, Meaning: "timer, late: hosts find a lost packet by the retransmission timer, or when its " +
		"answer is late and a later packet is answered"}
	newsDoc        = transport.Param{Name: newsParam, Meaning: "ignored, taken: hosts keep to links that are reported dead, or avoid them"}
	convergenceDoc = transport.Param{Name: convergenceParam, Meaning: "switches are routers, and this long after a switch notices a dead " +
		"port no table uses its link; no routing when absent"}
	entropyDoc = transport.Param{Name: "entropy", Meaning: "path, port: a packet's label names its path, or switches hash its source port"}
)

// DefaultConvergence is the time in which a routing protocol of a tuned network repairs the tables. By default Junos
// (spf-options delay) and Cisco ACI (spf-init-interval) wait 200 ms before they compute paths.
const DefaultConvergence = 50 * fabric.Millisecond

// fairParams returns the values of the fair form; not all schemes have all parameters.
func fairParams() map[string]string {
	return map[string]string{lossParam: lossByTime, newsParam: newsTaken, convergenceParam: DefaultConvergence.String()}
}

// Fair returns the parameters with which the scheme is compared fairly with Ethereal: as far as it has such parameters,
// it detects losses and learns of failures in the same way, and switches run a routing protocol. Parameters that are
// given keep their values.
func (s Spec) Fair(given map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range fairParams() {
		if slices.Contains(s.ParamNames(), name) && (name != newsParam || given["entropy"] != byPort) {
			all[name] = value
		}
	}
	maps.Copy(all, given)
	return all
}

// Lacks returns what hosts and switches of the scheme cannot do with the given parameters that those of its fair form
// can ([Spec.Fair]); ok is false if it has no fair form.
func (s Spec) Lacks(given map[string]string) (lacks []string, ok bool) {
	fair, names := s.Fair(given), s.ParamNames()
	for _, p := range []struct {
		name, lack string
		has        bool
	}{
		{lossParam, "lost packets are found by the retransmission timer only", s.FindsLate(given, s.Receiver)},
		{newsParam, "reports of dead links are ignored", given[newsParam] == newsTaken},
		{convergenceParam, "there is no routing protocol", given[convergenceParam] != ""},
	} {
		if !slices.Contains(names, p.name) {
			continue
		}
		ok = true
		if _, would := fair[p.name]; would && !p.has {
			lacks = append(lacks, p.lack)
		}
	}
	return lacks, ok
}

// FindsLate reports whether hosts detect losses by time if packets take several paths. It is so if the authors' hosts
// do and the receiver keeps packets that arrive out of order.
func (s Spec) FindsLate(given map[string]string, r transport.Receiver) bool {
	receiver, err := r.Spec()
	return given[lossParam] == lossByTime || s.DetectsLate && err == nil && !receiver.Needs.InOrder
}

// Convergence returns the time in which a routing protocol repairs switches' tables; ok is false if none runs.
func (s Spec) Convergence(given map[string]string) (after fabric.Time, ok bool) {
	if _, ok = given[convergenceParam]; !ok {
		return 0, false
	}
	return s.args(given).Time(convergenceParam, DefaultConvergence, DefaultConvergence), true
}

// Adapted reports whether the parameters change the scheme, compared with its authors' publication, so that only a
// world with packets can simulate it.
func (s Spec) Adapted(given map[string]string) bool {
	_, routed := s.Convergence(given)
	return routed || given[lossParam] == lossByTime || given[newsParam] == newsTaken
}

// readFair reads those of these parameters that the scheme has.
func (s Spec) readFair(a *params.Reader, c *Config) {
	a.Choice(lossParam, "timer", lossByTime)
	c.takesNotifications = a.Choice(newsParam, "ignored", newsTaken) == newsTaken
	if a.Time(convergenceParam, DefaultConvergence, DefaultConvergence) == 0 { // scenario.Run.Hash takes 0 for absent
		a.Bad(convergenceParam, "a time above 0, such as 1us")
	}
}

// deadLinks is a host's knowledge of dead links. It believes quenches, notices and updates by the same rules as
// Ethereal's agent.
type deadLinks struct {
	agent *hostagent.Core
	live  map[fabric.NodeID][]fabric.Label // by destination host, as requested since the last notification
}

func newDeadLinks(c hostagent.Config) (*deadLinks, error) {
	agent, err := hostagent.New(c)
	return &deadLinks{agent, map[fabric.NodeID][]fabric.Label{}}, err
}

// paths returns the labels of the paths to a host that are not known to be dead, ascending; all if all are dead.
func (n *deadLinks) paths(dst fabric.NodeID) []fabric.Label {
	labels, known := n.live[dst]
	if !known {
		labels = n.agent.GoodPaths(dst)
		slices.Sort(labels)
		n.live[dst] = labels
	}
	return labels
}

// livePath returns the label if its path to a host is not known to be dead, otherwise a random other one.
func (s *pieces) livePath(dst fabric.NodeID, l fabric.Label) fabric.Label {
	if s.deadLinks == nil || l >= s.span {
		return l
	}
	labels := s.deadLinks.paths(dst)
	if _, found := slices.BinarySearch(labels, l); found || len(labels) == 0 {
		return l
	}
	return s.randomLabel(labels)
}

// Quench processes a quench with an agent's rules, if the scheme takes notifications. Otherwise it is ignored,
// since the host does not keep states of paths.
func (s *pieces) Quench(now fabric.Time, q frame.Quench) hostagent.Verdict {
	if s.deadLinks == nil {
		return hostagent.NotOurs
	}
	clear(s.deadLinks.live)
	return s.deadLinks.agent.Quench(now, q)
}

// Update processes a controller's update.
func (s *pieces) Update(now fabric.Time, u *statepb.Update) {
	if s.deadLinks != nil {
		clear(s.deadLinks.live)
		s.deadLinks.agent.Update(now, u)
	}
}

// Tick forgets notifications of dead links that are too old.
func (s *pieces) Tick(now fabric.Time) {
	if s.deadLinks != nil {
		clear(s.deadLinks.live)
		s.deadLinks.agent.Tick(now)
	}
}

// Deadline returns when to call Tick next.
func (s *pieces) Deadline() (at fabric.Time, ok bool) {
	if s.deadLinks == nil {
		return 0, false
	}
	return s.deadLinks.agent.Deadline()
}

// AckLabel mirrors the label: ACKs are hashed by the same port, or take the same path unless that is known to be
// dead.
func (s *pieces) AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label {
	if s.deadLinks == nil {
		return mirrored
	}
	return s.deadLinks.agent.ResponderLabel(now, peer, mirrored, rerouted)
}
