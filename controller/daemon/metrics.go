package daemon

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
)

// metrics are the metrics for Prometheus: times measured as they happen, and the status at each scrape.
type metrics struct {
	converged prometheus.Histogram
	badTokens prometheus.Counter
	scraped   []scraped
	switches  []scrapedSwitch
	tiers     []scrapedTier
	paths     []scrapedPath
	largest   *prometheus.Desc
}

// scrapedPath is a metric per recently probed path.
type scrapedPath struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*observe.PathStatus) float64
}

// scrapedTier is a metric per tier of links, where counters are read.
type scrapedTier struct {
	desc  *prometheus.Desc
	value func(*observe.TierLoad) float64
}

// scraped is a metric of the status.
type scraped struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Status) float64
}

// scrapedSwitch is a metric per switch.
type scrapedSwitch struct {
	desc  *prometheus.Desc
	value func(*SwitchStatus) float64
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

const gaugeValue, counterValue = prometheus.GaugeValue, prometheus.CounterValue

func newMetrics() *metrics {
	m := &metrics{converged: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "ethereal_convergence_seconds",
		Help:    "From the first report of a link's change to the last acknowledged write.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
	}), badTokens: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ethereal_wrong_tokens_total", Help: "Requests refused for a wrong or missing token.",
	})}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ethereal_"+name, help, labels, nil)
	}
	add := func(kind prometheus.ValueType, name, help string, value func(*Status) float64) {
		m.scraped = append(m.scraped, scraped{desc(name, help), kind, value})
	}
	add(gaugeValue, "ready", "1 when started, every switch has a primary controller and every port of switches with gNMI is reported.",
		func(s *Status) float64 { return oneIf(s.Ready) })
	add(gaugeValue, "busy", "1 while a change is being written.", func(s *Status) float64 { return oneIf(s.Busy) })
	add(counterValue, "link_changes_total", "Changes of links, and of what is suspected of them.",
		func(s *Status) float64 { return float64(s.Epoch) })
	add(counterValue, "changes_written_total", "Changes written to switches.",
		func(s *Status) float64 { return float64(s.Changes) })
	add(counterValue, "repair_updates_total", "Updates that read-backs asked for.",
		func(s *Status) float64 { return float64(s.Repairs) })
	add(counterValue, "refused_writes_total", "Writes that failed.", func(s *Status) float64 { return float64(s.Refusals) })
	add(counterValue, "flips_total", "Queue pairs that agents moved to another path, as they reported.",
		func(s *Status) float64 { return float64(s.Flips) })
	add(gaugeValue, "links", "Links of the fabric.", func(s *Status) float64 { return float64(s.Links) })
	links := func(name, help string, is func(*LinkStatus) bool) {
		add(gaugeValue, name, help, func(s *Status) (n float64) {
			for i := range s.NotUp {
				n += oneIf(is(&s.NotUp[i]))
			}
			return n
		})
	}
	links("links_down", "Links that an end calls down.", func(l *LinkStatus) bool { return l.DownA || l.DownB })
	links("links_drained", "Links that operators took out of use.", func(l *LinkStatus) bool { return l.Drained })
	links("links_flapping", "Links held down because they flap.", func(l *LinkStatus) bool { return l.Flapping })
	links("links_suspected", "Links that lose packets though no switch says so.",
		func(l *LinkStatus) bool { return l.Suspected })
	links("links_slow", "Links that carry less than their full rate, as a switch reports its port's speed.",
		func(l *LinkStatus) bool { return l.Carries > 0 })
	links("links_unseen", "Links of which a switch with gNMI never named its end.",
		func(l *LinkStatus) bool { return l.UnseenA || l.UnseenB })
	add(counterValue, "reports_total", "Paths that agents reported as timed out.",
		func(s *Status) float64 { return float64(s.Suspicion.Reports) })
	add(counterValue, "suspicions_total", "Links suspected.", func(s *Status) float64 { return float64(s.Suspicion.Suspected) })
	add(counterValue, "probes_total", "Probes that agents were asked for.",
		func(s *Status) float64 { return float64(s.Suspicion.Probes) })
	add(gaugeValue, "agents", "Connected agents.", func(s *Status) float64 { return float64(len(s.Agents)) })
	add(gaugeValue, "agent_updates_behind", "Updates that the slowest agent has not taken.", func(s *Status) (most float64) {
		for _, a := range s.Agents {
			most = max(most, float64(a.Behind))
		}
		return most
	})
	each := func(name, help string, value func(*SwitchStatus) float64) {
		m.switches = append(m.switches, scrapedSwitch{desc("switch_"+name, help, "switch"), value})
	}
	each("primary", "1 where this controller is primary.", func(x *SwitchStatus) float64 { return oneIf(x.Primary) })
	each("standby", "1 where another controller is.", func(x *SwitchStatus) float64 { return oneIf(x.Phase == p4rt.Backup) })
	each("synced", "1 where the tables are as desired.", func(x *SwitchStatus) float64 { return oneIf(x.Synced) })
	each("dead", "1 where the neighbours say that the switch is dead.",
		func(x *SwitchStatus) float64 { return oneIf(x.Verdict == Dead) })
	each("ports_fresh", "1 where port states are up to date.",
		func(x *SwitchStatus) float64 { return oneIf(x.Ports == "fresh") })
	each("ports_never_seen", "Ports that the switch has never named over gNMI.",
		func(x *SwitchStatus) float64 { return float64(len(x.NeverSeen)) })
	each("entries", "Entries when the tables were read last.", func(x *SwitchStatus) float64 { return float64(x.Entries) })
	tier := func(name, help string, value func(*observe.TierLoad) float64) {
		m.tiers = append(m.tiers, scrapedTier{desc("tier_"+name, help, "tier"), value})
	}
	tier("imbalance", "The busiest link of a tier, one way, over their mean, less 1.",
		func(x *observe.TierLoad) float64 { return x.Imbalance })
	tier("mean_bytes_per_second", "What a link of a tier carries one way, the mean.",
		func(x *observe.TierLoad) float64 { return x.Mean })
	tier("max_bytes_per_second", "What the busiest link of a tier carries one way.",
		func(x *observe.TierLoad) float64 { return x.Max })
	tier("hot_links", "Uplinks above 1.25 of the mean of their switch's.",
		func(x *observe.TierLoad) float64 { return float64(len(x.Hot)) })
	tier("cold_links", "Uplinks below 0.75 of the mean of their switch's.",
		func(x *observe.TierLoad) float64 { return float64(len(x.Cold)) })
	m.largest = prometheus.NewDesc("ethereal_largest_flow_bytes_per_second",
		"Bytes per second that a host sends to its largest destination, of the hosts that send most, as agents report.", []string{"from"}, nil)
	m.paths = pathMetrics()
	return m
}

func pathMetrics() (all []scrapedPath) {
	path := func(kind prometheus.ValueType, name, help string, value func(*observe.PathStatus) float64) {
		d := prometheus.NewDesc("ethereal_path_"+name, help, []string{"from", "to", "label"}, nil)
		all = append(all, scrapedPath{d, kind, value})
	}
	path(counterValue, "probe_packets_total", "Packets of probes down a path that was probed for a suspicion.",
		func(x *observe.PathStatus) float64 { return float64(x.Sent) })
	path(counterValue, "probe_packets_lost_total", "Those that were not answered.",
		func(x *observe.PathStatus) float64 { return float64(x.Lost) })
	path(gaugeValue, "trip_seconds", "From a packet to its answer, the mean of the last probe that was answered.",
		func(x *observe.PathStatus) float64 { return x.Trip.Seconds() })
	path(gaugeValue, "trip_least_seconds", "The least of all probes.", func(x *observe.PathStatus) float64 { return x.Least.Seconds() })
	return all
}

// collector provides a daemon's metrics to Prometheus.
type collector struct{ d *Daemon }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, x := range c.d.metrics.scraped {
		out <- x.desc
	}
	for _, x := range c.d.metrics.switches {
		out <- x.desc
	}
	for _, x := range c.d.metrics.tiers {
		out <- x.desc
	}
	for _, x := range c.d.metrics.paths {
		out <- x.desc
	}
	out <- c.d.metrics.largest
}

// scrapeTimeout bounds the wait for the daemon's goroutine.
const scrapeTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	s, err := c.d.Status(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.d.metrics.scraped[0].desc, err)
		return
	}
	for _, x := range c.d.metrics.scraped {
		out <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(&s))
	}
	for _, x := range c.d.metrics.switches {
		for i := range s.Switches {
			out <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, x.value(&s.Switches[i]), s.Switches[i].Name)
		}
	}
	for _, x := range c.d.metrics.paths {
		for i := range s.Paths {
			p := &s.Paths[i]
			if v := x.value(p); v > 0 || x.kind == counterValue { // a time that was not measured is left out
				out <- prometheus.MustNewConstMetric(x.desc, x.kind, v, p.From, p.To, strconv.Itoa(p.Label))
			}
		}
	}
	for i, x := range s.Largest {
		if !slices.ContainsFunc(s.Largest[:i], func(y observe.FlowStatus) bool { return y.From == x.From }) { // the host's largest
			out <- prometheus.MustNewConstMetric(c.d.metrics.largest, prometheus.GaugeValue, x.Rate, x.From)
		}
	}
	if s.Loads == nil {
		return
	}
	for _, x := range c.d.metrics.tiers {
		for i := range s.Loads.Tiers {
			t := &s.Loads.Tiers[i]
			out <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, x.value(t), t.Tier)
		}
	}
}

// Registry returns a registry with the daemon's metrics and the process's.
func (d *Daemon) Registry() (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	var more []error
	for _, c := range d.cfg.Metrics {
		more = append(more, r.Register(c))
	}
	return r, errors.Join(errors.Join(more...),
		r.Register(buildinfo.Metric()), r.Register(collector{d}), r.Register(d.metrics.converged), r.Register(d.metrics.badTokens),
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
}

func (d *Daemon) metricsHandler() http.Handler {
	r, err := d.Registry()
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		})
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}
