package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ethereal-fabric/ethereal/hostagent"
)

// Metric returns the description of a Prometheus metric of hosts: the program's prefix, and the labels.
func Metric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ethereal_host_"+name, help, labels, nil)
}

// CollectQuenches sends the Prometheus metric of processed source quenches, counted by [hostagent.Verdict].
func CollectQuenches(out chan<- prometheus.Metric, verdicts []uint64) {
	d := Metric("quenches_total", "Source quenches, by what became of them.", "verdict")
	for v, n := range verdicts {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), hostagent.Verdict(v).String())
	}
}

// CollectLabels sends the Prometheus metric of bytes sent, by path label.
func CollectLabels(out chan<- prometheus.Metric, bytes map[string]uint64) {
	d := Metric("label_bytes_total", "Bytes of data frames sent, by path label.", "label")
	for l, n := range bytes {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), l)
	}
}

// CollectControllers sends the Prometheus metrics of the agent's controllers: which are connected, and which one the
// agent follows.
func CollectControllers(out chan<- prometheus.Metric, cs []Controller) {
	d := Metric("controller_followed", "1 for the controller that the host follows.", "addr")
	for _, x := range cs {
		v := 0.0
		if x.Followed {
			v = 1
		}
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, x.Addr)
	}
}
