package hostprocess

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
	"github.com/ethereal-fabric/ethereal/testbed/hostproto"
)

// Status is the state that a host shows to operators, as JSON.
type Status struct {
	Host        string              `json:"host"`
	Controllers []daemon.Controller `json:"controllers"`
	Stats       *hostproto.Stats    `json:"stats"`
}

// Handler serves the host's status and metrics, with further ones; see daemon.Handler.
func (p *Process) Handler(more ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, buildinfo.Metric(), collector{p})...)
	return daemon.Handler(func(r *http.Request) (any, error) {
		s, err := p.Stats(r.Context())
		return Status{p.cfg.Fabric.Name(p.cfg.Host), p.Controllers(), s}, err
	}, registry)
}

// collector collects a process's counts on request.
type collector struct{ p *Process }

// Describe implements [prometheus.Collector]. It is empty: the metrics depend on what has happened.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s, err := c.p.Stats(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(daemon.Metric("up", "1 when the host answers."), err)
		return
	}
	put := func(kind prometheus.ValueType, name, help string, v float64) {
		out <- prometheus.MustNewConstMetric(daemon.Metric(name, help), kind, v)
	}
	count := func(name, help string, v uint64) { put(prometheus.CounterValue, name, help, float64(v)) }
	count("frames_sent_total", "RoCEv2 frames sent.", s.FramesOut)
	count("frames_received_total", "RoCEv2 frames taken.", s.FramesIn)
	count("retransmissions_total", "Retransmitted data packets.", s.Retransmissions)
	count("timeouts_total", "Retransmission timers that expired.", s.Timeouts)
	count("naks_total", "Negative acknowledgements taken.", s.NaksTaken)
	count("bad_icrc_total", "Frames whose invariant CRC was wrong.", s.BadICRC)
	count("bad_frames_total", "Frames and quenches that contradict themselves.", s.BadFrame+s.BadQuench)
	count("refused_writes_total", "WRITEs outside of registered memory.", s.NoRegion)
	count("flips_total", "Changes of a queue pair's path.", s.Flips)
	count("port_lost_total", "Frames that came while the receive ring was full.", s.PortLost)
	put(prometheus.GaugeValue, "messages_open", "Messages not acknowledged to the end.", float64(s.Open))
	put(prometheus.GaugeValue, "queue_pairs_open", "Queue pairs open.", float64(s.ActiveQPs))
	daemon.CollectQuenches(out, s.Verdicts)
	verdicts := daemon.Metric("path_verdicts_total", "Paths that were asked, by the verdict; back: dead ones that answered later.", "verdict")
	for v, n := range map[string]uint64{"alive": s.Paths.Alive, "dead": s.Paths.Dead, "back": s.Paths.Back} {
		out <- prometheus.MustNewConstMetric(verdicts, prometheus.CounterValue, float64(n), v)
	}
	labels := make(map[string]uint64, len(s.LabelBytes))
	for l, n := range s.LabelBytes {
		labels[strconv.Itoa(l)] = n
	}
	daemon.CollectLabels(out, labels)
	daemon.CollectControllers(out, c.p.Controllers())
}
