// Package buildinfo says from what a program was built.
package buildinfo

import (
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Version returns the program's version: the release's tag, or the commit and whether files were changed, and the
// version of Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				v += " " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				v += " modified"
			}
		}
	}
	return v + " " + info.GoVersion
}

// Metric returns the metric ethereal_build_info: 1, with the program's version and Go's as labels.
func Metric() prometheus.Collector {
	v := Version()
	at := strings.LastIndexByte(v, ' ')
	m := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ethereal_build_info", Help: "1, from what the program was built in the labels.",
		ConstLabels: prometheus.Labels{"version": v[:max(at, 0)], "goversion": v[at+1:]},
	})
	m.Set(1)
	return m
}
