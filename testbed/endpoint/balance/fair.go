package balance

import (
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint"
	"github.com/ethereal-fabric/ethereal/testbed/endpoint/params"
)

// Parameters of schemes that say what they have beyond what their authors published: what Ethereal's hosts have to find
// losses and to learn of failures, and what any routed network has.
const (
	// lossParam is how losses are found of packets that take several paths. timer: by the retransmission timer, and
	// where receivers have a window by half of it. late: by time, with probes of tails; see [endpoint.Config].LateLoss.
	lossParam = "loss"
	// newsParam is what hosts do that label packets when a switch or the controller says that a link is dead. ignored:
	// nothing. taken: they use none of its paths.
	newsParam = "news"
	// convergenceParam is how long after a switch notices a dead port the tables of all switches have no path over its link
	// where no controller repairs them: a routing protocol does. The switch itself goes round a dead uplink at once.
	convergenceParam = "convergence"

	lossByTime = "late"
	newsTaken  = "taken"
)

// The parameters above, for the list of a scheme.
var (
	lossDoc = endpoint.Param{Name: lossParam, Meaning: "timer, late: hosts find a lost packet by the retransmission timer, or when its " +
		"answer is late and a later packet is answered"}
	newsDoc        = endpoint.Param{Name: newsParam, Meaning: "ignored, taken: hosts keep to links that are reported dead, or avoid them"}
	convergenceDoc = endpoint.Param{Name: convergenceParam, Meaning: "switches are routers, and this long after a switch notices a dead " +
		"port no table uses its link; no routing when absent"}
	entropyDoc = endpoint.Param{Name: "entropy", Meaning: "path, port: a packet's label names its path, or switches hash its source port"}
)

// DefaultConvergence is a routing protocol's in a tuned network. By default Junos (spf-options delay) and Cisco ACI
// (spf-init-interval) wait 200 ms before they compute paths at all.
const DefaultConvergence = 50 * fabric.Millisecond

// fairParams are the values of the fair form, of parameters that not all schemes take.
func fairParams() map[string]string {
	return map[string]string{lossParam: lossByTime, newsParam: newsTaken, convergenceParam: DefaultConvergence.String()}
}

// Fair returns the parameters of the scheme's fair form: what Ethereal has to find losses and to learn of failures, as
// far as the scheme can use it, and the routing that any network has. What is given stays.
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

// FindsLate reports whether hosts find by time what they lose of packets that take several paths.
func (s Spec) FindsLate(given map[string]string) bool { return given[lossParam] == lossByTime }

// Convergence returns how long a routing protocol takes to have switches' tables repaired; ok is false where none runs.
func (s Spec) Convergence(given map[string]string) (after fabric.Time, ok bool) {
	if _, ok = given[convergenceParam]; !ok {
		return 0, false
	}
	return s.args(given).Time(convergenceParam, DefaultConvergence, DefaultConvergence), true
}

// Adapted reports whether the scheme is another than its authors published, as only a world with packets has it.
func (s Spec) Adapted(given map[string]string) bool {
	_, routed := s.Convergence(given)
	return routed || s.FindsLate(given) || given[newsParam] == newsTaken
}

// readFair reads what of these parameters the scheme takes.
func (s Spec) readFair(a *params.Reader, c *Config) {
	a.Choice(lossParam, "timer", lossByTime)
	c.news = a.Choice(newsParam, "ignored", newsTaken) == newsTaken
	if a.Time(convergenceParam, DefaultConvergence, DefaultConvergence) == 0 { // which [scenario.Run.Hash] takes for none
		a.Bad(convergenceParam, "a time above 0, such as 1us")
	}
}

// news is what a host knows of dead links: what an agent of Ethereal's believes of quenches, notices and updates.
type news struct {
	agent *hostagent.Core
	live  map[fabric.NodeID][]fabric.Label // by destination host, of what was asked since the last news
}

func newNews(c hostagent.Config) (*news, error) {
	agent, err := hostagent.New(c)
	return &news{agent, map[fabric.NodeID][]fabric.Label{}}, err
}

// paths returns the labels of the paths to a host that are not known to be dead, ascending; all if all are dead.
func (n *news) paths(dst fabric.NodeID) []fabric.Label {
	labels, known := n.live[dst]
	if !known {
		labels = n.agent.GoodPaths(dst)
		slices.Sort(labels)
		n.live[dst] = labels
	}
	return labels
}

// alive returns a label if no news says that its path to a host is dead, else one of the others, drawn.
func (s *pieces) alive(dst fabric.NodeID, l fabric.Label) fabric.Label {
	if s.news == nil || l >= s.span {
		return l
	}
	labels := s.news.paths(dst)
	if _, found := slices.BinarySearch(labels, l); found || len(labels) == 0 {
		return l
	}
	return s.entropy(labels)
}

// Quench takes a quench for true as an agent does, where the scheme takes news. Else it is disregarded: the host keeps no
// account of paths.
func (s *pieces) Quench(now fabric.Time, q hostagent.Quench) hostagent.Verdict {
	if s.news == nil {
		return hostagent.NotOurs
	}
	clear(s.news.live)
	return s.news.agent.Quench(now, q)
}

// Update takes a controller's news of links.
func (s *pieces) Update(now fabric.Time, u *statepb.Update) {
	if s.news != nil {
		clear(s.news.live)
		s.news.agent.Update(now, u)
	}
}

// Tick forgets what is not to be remembered any longer.
func (s *pieces) Tick(now fabric.Time) {
	if s.news != nil {
		clear(s.news.live)
		s.news.agent.Tick(now)
	}
}

// Deadline returns when Tick is to be called next.
func (s *pieces) Deadline() (at fabric.Time, ok bool) {
	if s.news == nil {
		return 0, false
	}
	return s.news.agent.Deadline()
}

// AckLabel mirrors: ACKs are hashed by the same port, or take the same path unless that is known to be dead.
func (s *pieces) AckLabel(now fabric.Time, peer fabric.NodeID, mirrored fabric.Label, rerouted bool) fabric.Label {
	if s.news == nil {
		return mirrored
	}
	return s.news.agent.ResponderLabel(now, peer, mirrored, rerouted)
}
