package certs

import "github.com/prometheus/client_golang/prometheus"

var expiryDesc = prometheus.NewDesc("ethereal_certificate_expiry_timestamp_seconds",
	"Unix time at which the process's own certificate expires, and the first of its authorities'.", []string{"certificate"}, nil)

// Describe implements [prometheus.Collector].
func (t *Files) Describe(out chan<- *prometheus.Desc) { out <- expiryDesc }

// Collect implements [prometheus.Collector].
func (t *Files) Collect(out chan<- prometheus.Metric) {
	own, authority := t.Expiry()
	if !own.IsZero() {
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(own.Unix()), "own")
	}
	if !authority.IsZero() {
		out <- prometheus.MustNewConstMetric(expiryDesc, prometheus.GaugeValue, float64(authority.Unix()), "authority")
	}
}
