package adopt

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
)

// Status is the state that an agent shows to operators, as JSON.
type Status struct {
	Host        string                `json:"host"`
	Controllers []daemon.Controller   `json:"controllers"`
	QueuePairs  []labeller.Assignment `json:"queue_pairs"`
	// queue pairs assigned to another path whose new label is not set yet
	Behind int             `json:"behind"`
	Stats  hostagent.Stats `json:"stats"`
}

// Handler serves the agent's [Status] as JSON, and its metrics together with those of more, at the HTTP paths of
// [daemon.Handler].
func (a *Agent) Handler(host string, controllers func() []daemon.Controller, more ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, buildinfo.Metric(), collector{a, controllers})...)
	return daemon.Handler(func(*http.Request) (any, error) {
		return Status{host, controllers(), a.Adopted(), a.Behind(), a.Stats()}, nil
	}, registry)
}

// Behind returns the number of queue pairs that were moved but could not be labelled yet.
func (a *Agent) Behind() (n int) {
	a.Locked(func() { n = len(a.unlabelled) })
	return n
}

// collector collects an agent's counts on request.
type collector struct {
	a           *Agent
	controllers func() []daemon.Controller
}

// Describe implements [prometheus.Collector]. It is empty: the metrics depend on what has happened.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.a.Stats()
	put := func(kind prometheus.ValueType, name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(daemon.Metric(name, help), kind, v)
	}
	put(prometheus.CounterValue, "flips_total", "Changes of a queue pair's path.", float64(s.Flips))
	put(prometheus.CounterValue, "timeouts_total", "Retransmission timers that expired.", float64(s.Timeouts))
	put(prometheus.GaugeValue, "queue_pairs_open", "Queue pairs that have a path.", float64(len(c.a.Adopted())))
	put(prometheus.GaugeValue, "queue_pairs_behind", "Queue pairs that could not be labelled yet.", float64(c.a.Behind()))
	daemon.CollectQuenches(out, s.Quenches[:])
	daemon.CollectControllers(out, c.controllers())
	counts, err := c.a.cfg.Labels.Counters()
	if err != nil {
		return // this labeller counts nothing
	}
	by := map[string]uint64{}
	for l, n := range counts.Labels {
		by[strconv.Itoa(int(l))] = n.Bytes
	}
	daemon.CollectLabels(out, by)
	reasons := daemon.Metric("looked_at_total", "Frames that the labeller looked at, by what became of them.", "reason")
	for r, n := range counts.Reasons {
		out <- prometheus.MustNewConstMetric(reasons, prometheus.CounterValue, float64(n.Packets), labeller.Reason(r).String())
	}
}
