package daemon

import (
	"context"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/linkstate"
	"github.com/ethereal-fabric/ethereal/controller/notify"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// Convergence is how long the tables took to follow a change of links.
type Convergence struct {
	Trigger  time.Time     `json:"trigger"` // when the controller learned of the first changed link
	Took     time.Duration `json:"took_ns"` // until the last write was acknowledged, or no longer awaited
	Epoch    uint64        `json:"epoch"`
	Switches int           `json:"switches"` // writes sent; a switch may get several
	// Missed is the number of writes that were not acknowledged in time, refused, or not sent.
	Missed  int `json:"missed,omitempty"`
	Updates int `json:"updates"`
}

// SwitchStatus is the state of a switch.
type SwitchStatus struct {
	Name      string     `json:"name"`
	P4Runtime string     `json:"p4runtime"`
	DeviceID  uint64     `json:"device_id"`
	GNMI      string     `json:"gnmi,omitempty"`
	Phase     p4rt.Phase `json:"phase"`
	Primary   bool       `json:"primary"`
	Synced    bool       `json:"synced"` // it has the tables that it should have
	Error     string     `json:"error,omitempty"`
	Ports     string     `json:"ports"` // whether its port states are up to date: see [linkstate.Health]
	PortError string     `json:"ports_error,omitempty"`
	Sampling  bool       `json:"sampling,omitempty"`
	// NeverSeen lists interfaces of ports in the fabric file that the switch has never named over gNMI.
	NeverSeen []string `json:"ports_never_seen,omitempty"`
	Verdict   Verdict  `json:"verdict"`
	Entries   int      `json:"entries"` // number of table entries when last read
	// Unfit says why the P4 program cannot hold the switch's tables.
	Unfit string `json:"unfit,omitempty"`
	// Drops are the reasons for which the switch drops packets, if it has an admin address; DropsError is the error
	// of reading them.
	Drops      []observe.Drop `json:"drops,omitempty"`
	DropsError string         `json:"drops_error,omitempty"`
}

// LinkStatus is the state of a link that is not simply up.
type LinkStatus struct {
	Name    string `json:"name"`
	Up      bool   `json:"up"` // the controller uses the link: both ends are up, and it is not drained
	DownA   bool   `json:"down_a,omitempty"`
	DownB   bool   `json:"down_b,omitempty"`
	Drained bool   `json:"drained,omitempty"`
	// Flapping: the link is held down although its ends may report it up.
	Flapping bool `json:"flapping,omitempty"`
	// Suspected: agents' time-outs point to the link; Confirmed: probes over it are lost.
	Suspected bool `json:"suspected,omitempty"`
	Confirmed bool `json:"confirmed,omitempty"`
	// UnseenA, UnseenB: the switch at that end has gNMI, but has never reported the port. The link is used as if
	// that end were up.
	UnseenA bool `json:"unseen_a,omitempty"`
	UnseenB bool `json:"unseen_b,omitempty"`
	// Carries is the link's rate as the switches report it, in bits/s, if it is below the full rate: the link's
	// paths get less load.
	Carries fabric.Rate `json:"carries_bps,omitempty"`
	// Epoch is the number of the link's last change among the changes of all links.
	Epoch uint64 `json:"epoch"`
}

// Status is the state of the controller.
type Status struct {
	Instance string    `json:"instance"`
	Since    time.Time `json:"since"`
	Started  bool      `json:"started"`
	// Ready: started, every switch is synced or another controller is its primary, and every port of switches with
	// gNMI has been reported.
	Ready    bool           `json:"ready"`
	Epoch    uint64         `json:"epoch"` // of the last change of a link: the number of changes
	Busy     bool           `json:"busy"`  // table writes for a change are in progress
	Last     Convergence    `json:"last_convergence"`
	Changes  uint64         `json:"changes"`  // changes of links whose tables were written
	Repairs  uint64         `json:"repairs"`  // updates written because tables read from switches differed
	Refusals uint64         `json:"refusals"` // table writes that failed
	Flips    uint64         `json:"flips"`    // moves of queue pairs to other paths, reported by agents
	Links    int            `json:"links"`
	Switches []SwitchStatus `json:"switches"`
	NotUp    []LinkStatus   `json:"links_not_up"`
	Agents   []notify.Agent `json:"agents"`

	Suspicion suspicion.Stats `json:"suspicion"`

	Loads *observe.LoadStatus  `json:"loads,omitempty"` // loads of links; nil: counters are not read
	Paths []observe.PathStatus `json:"paths,omitempty"` // results of recent path probes, over links that agents suspect
	// Largest are the pairs of hosts with the most traffic, from the agents' reports of the last seconds.
	Largest []observe.FlowStatus `json:"largest,omitempty"`
}

// Status returns the present state.
func (d *Daemon) Status(ctx context.Context) (Status, error) {
	var s Status
	err := d.runInLoop(ctx, func() { s = d.status() })
	s.Agents, s.Loads = d.service.Agents(), d.loads.Status(d.f)
	return s, err
}

func (d *Daemon) status() Status {
	s := Status{
		Instance: d.cfg.Core.Instance, Since: d.began, Started: d.core.Started(), Epoch: d.core.Epoch(),
		Ready: d.core.Started() && d.core.Waiting() == 0, Busy: !d.core.Idle(), Last: d.last, Changes: d.changes,
		Refusals: d.refusals, Flips: d.flips, Links: d.f.Links(),
		NotUp: []LinkStatus{}, Suspicion: d.core.Suspicion(), Paths: d.paths.Status(d.f, time.Now()), Largest: d.largest.Status(d.f, time.Now()),
	}
	unseen := map[fabric.End]bool{}
	for _, dev := range d.switches {
		s.Repairs += dev.repairs
		synced := d.core.Synced(dev.id)
		x := SwitchStatus{
			Name: dev.name, P4Runtime: dev.target.P4Runtime, DeviceID: dev.target.DeviceID, GNMI: dev.target.GNMI,
			Phase: dev.phase, Primary: dev.phase.Primary(), Synced: synced, Error: dev.phaseErr,
			Ports: dev.health.String(), PortError: dev.healthErr, Sampling: dev.sampling, Verdict: dev.verdict,
			Entries: dev.entries, Unfit: dev.unfitReason,
		}
		x.Drops, x.DropsError = d.drops.ReasonsOf(dev.id)
		if dev.ports == nil {
			x.Ports = "none"
		} else {
			for _, p := range d.core.Unreported(dev.id) {
				x.NeverSeen = append(x.NeverSeen, dev.target.Ports.Name(p))
				unseen[fabric.End{Node: dev.id, Port: p}] = true
			}
		}
		portsKnown := dev.ports == nil || dev.health == linkstate.Fresh && len(x.NeverSeen) == 0
		s.Ready = s.Ready && (synced || dev.phase == p4rt.Backup) && portsKnown
		s.Switches = append(s.Switches, x)
	}
	for i := range d.f.Links() {
		id := fabric.LinkID(i)
		r, flapping := d.core.Tables().LinkReport(id), d.core.Damped(id)
		l := d.f.Link(id)
		if r.Up() && !flapping && !r.Suspected && r.Rate == 0 && !unseen[l.A] && !unseen[l.B] {
			continue
		}
		s.NotUp = append(s.NotUp, LinkStatus{
			Name: d.f.LinkName(id), Up: r.Up(), DownA: r.DownA, DownB: r.DownB, Drained: r.Drained, Flapping: flapping,
			Carries: r.Rate, Epoch: r.Epoch,
			Suspected: r.Suspected, Confirmed: r.Confirmed, UnseenA: unseen[l.A], UnseenB: unseen[l.B],
		})
	}
	return s
}
