package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// Config describes the fabric, and what of it to check before operation.
type Config struct {
	Daemon daemon.Config // the controller's configuration
	// Controllers are the admin addresses of running controllers. None: the switches are asked directly.
	Controllers []string
	// Token is the controllers' token, without which they do not check cables.
	Token string
	// Agents are the hosts' admin addresses. A host without one is unseen.
	Agents map[fabric.NodeID]string
	// TLS is the configuration of connections; nil: none. The dates of the authorities that it trusts are checked.
	TLS         *tls.Config
	Authorities []*x509.Certificate
	// Frame is the minimum length of a frame that every cable must carry, in bytes; 0: not tried.
	Frame int
	// Push installs the program where it is missing, to check cables before a controller runs.
	Push  bool
	Wait  time.Duration // for the frames of the cabling check; 0: 3 s
	Limit time.Duration // time limit of every request; 0: 5 s
	Now   func() time.Time
}

// Names of subjects that are neither switch nor host.
const (
	wholeFabric = "fabric"
	thisMachine = "here"
)

// checker is a preflight check in progress.
type checker struct {
	Config
	f    *fabric.Fabric
	core *controller.Core
	list checklist.List
}

// Run checks everything that a fabric needs before operation, and returns one line per item.
func Run(ctx context.Context, cfg Config) ([]checklist.Line, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Daemon.Own == 0 {
		cfg.Daemon.Own = 1
	}
	if err := cfg.Daemon.Validate(); err != nil {
		return nil, err
	}
	core, err := controller.New(cfg.Daemon.Core)
	if err != nil {
		return nil, err
	}
	c := &checker{Config: cfg, f: cfg.Daemon.Core.Fabric, core: core}
	c.settings()
	c.certificates()
	led := c.controllers(ctx)
	var g errgroup.Group
	g.SetLimit(32)
	for i := range c.f.Switches() {
		id := fabric.NodeID(c.f.Hosts() + i)
		c.tables(id) // a core is not safe for concurrent use
		g.Go(func() error { c.checkSwitch(ctx, id, led != nil); return nil })
	}
	for h := range c.f.Hosts() {
		g.Go(func() error { c.agent(ctx, fabric.NodeID(h)); return nil })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := c.cables(ctx, led); err != nil {
		return nil, err
	}
	order := append([]string{thisMachine, wholeFabric}, cfg.Controllers...)
	for i := range c.f.Nodes() {
		order = append(order, c.f.Name(fabric.NodeID((i+c.f.Hosts())%c.f.Nodes()))) // switches first
	}
	return c.list.Lines(order), ctx.Err()
}

// settings checks the files' settings.
func (c *checker) settings() {
	d := c.Daemon.Core
	c.list.Add(checklist.Green, wholeFabric, "files", fmt.Sprintf("%d switches, %d hosts, %d links", c.f.Switches(), c.f.Hosts(), c.f.Links()), "")
	for _, note := range c.Daemon.Unchecked() {
		c.list.Add(checklist.Unseen, wholeFabric, "programs", note, "run the chip's compiler, and name its files in the targets file (docs/tofino.md)")
	}
	quench := fmt.Sprintf("a source is notified of a dead port at most every %d us", d.QuenchIntervalUs)
	if d.QuenchIntervalUs == controller.NeverQuench {
		quench = "off: hosts learn of dead ports from the controller and by time-outs"
	}
	if d.QuenchIntervalUs != controller.NeverQuench {
		if of := c.switchesWith(func(k *targets.Profile) bool { return !k.Notices() }); of != "" {
			quench += "; " + of + " never: hosts learn of their ports from the controller and by time-outs"
		}
	}
	c.list.Add(checklist.Green, wholeFabric, "quench", quench, "")
	c.list.Add(checklist.Green, wholeFabric, "priority", fmt.Sprintf("acknowledgements and congestion notifications have priority %d", d.ControlPriority), "")
	if of := c.switchesWith(func(k *targets.Profile) bool { return k.LacksTable(controller.Device) }); of != "" {
		c.list.Add(checklist.Unseen, wholeFabric, "priority", "tables.control_priority has no effect on "+of, "set priorities in the switches' own configuration")
	}
	if d.ECN.Kmax == 0 {
		c.list.Add(checklist.Unseen, wholeFabric, "ecn", "off: switches set no ECN marks, because the targets file has no key tables.ecn (live up and mininet write none)",
			"if hosts run DCQCN, add to the targets file: tables: {ecn: {kmin: 400KB, kmax: 1600KB, pmax: 0.2, unit: 80B}}")
		return
	}
	if of := c.switchesWith(func(k *targets.Profile) bool { return k.LacksTable(controller.ECNProfile) }); of != "" {
		c.list.Add(checklist.Unseen, wholeFabric, "ecn", "tables.ecn has no effect on "+of, "set ECN marks in the switches' own configuration")
	}
	c.list.Add(checklist.Green, wholeFabric, "ecn", fmt.Sprintf("marks from %v, all from %v of queue, in steps of %v", d.ECN.Kmin, d.ECN.Kmax, d.ECN.Unit), "")
}

// switchesWith returns the number of switches with a property, and their kinds; "" if there are none.
func (c *checker) switchesWith(is func(*targets.Profile) bool) string {
	count := map[string]int{}
	for _, t := range c.Daemon.Targets {
		if kind := t.Kind(); is(kind) {
			count[kind.Name]++
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%d %s", count[name], name))
	}
	return strings.Join(parts, ", ")
}
