package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
	"github.com/ethereal-fabric/ethereal/internal/buildinfo"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// dropsLogged is the interval at which a switch logs new drops.
const dropsLogged = 10 * time.Second

// dropRemedies maps drop reasons that mean a wrong set-up to their remedies. Drops for other reasons are decided by the
// P4 program, or by a full queue.
var dropRemedies = map[string]string{
	"priority out of range": "give the switch more --priority-queues, as many as the highest priority and one",
	"no program":            "push a program over P4Runtime, or name its JSON",
	"longer than the MTU":   "of UDP, turn off segmentation at its origin (ethtool -K IFACE gso off), or raise the MTU of the switch's interface",
	"too many passes":       "raise --max-passes",
	"action loop":           "raise --max-loops, if the loop ends",
	"recirculation full":    "more than 1024 packets circulate at once, as many as BMv2 takes",
	"no port":               "the program sends to a port that has no interface: compare -i with the tables",
}

// listenAdmin listens where the switch's status is served; nil: nowhere. Beyond the loopback it needs certificates.
func (o *switchOptions) listenAdmin(trust *certs.Files) (net.Listener, error) {
	l, err := listen.At("--listen-admin", o.admin, trust)
	if err != nil {
		return nil, fmt.Errorf("switch: %w", err)
	}
	return l, nil
}

// droppedFor is a switch's count of the packets dropped for one reason, with the remedy.
type droppedFor struct {
	process.Drop
	Remedy string `json:"remedy,omitempty"`
}

// switchHandler serves a switch's status and metrics, read-only.
func switchHandler(d *process.Device, more ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, buildinfo.Metric(), switchCounts{d})...)
	return daemon.Handler(func(*http.Request) (any, error) {
		s := d.Stats()
		drops := []droppedFor{}
		for _, x := range s.Drops() {
			drops = append(drops, droppedFor{x, dropRemedies[x.Reason]})
		}
		status := map[string]any{"packets_in": s.Ingress, "packets_out": s.Sent, "to_controllers": s.PacketIn, "segmented": s.Cut, "dropped": drops}
		if s.Kernel != nil {
			status["kernel"] = s.Kernel
		}
		return status, nil
	}, registry)
}

// switchCounts is a Prometheus collector of a switch's counters.
type switchCounts struct{ d *process.Device }

var (
	switchPackets = prometheus.NewDesc("ethereal_dataplane_packets_total", "Packets that came from ports, and that went to them.", []string{"way"}, nil)
	switchDropped = prometheus.NewDesc("ethereal_dataplane_dropped_total", "Packets that went nowhere, by reason.", []string{"reason"}, nil)
)

// Describe implements [prometheus.Collector].
func (switchCounts) Describe(out chan<- *prometheus.Desc) { out <- switchPackets; out <- switchDropped }

// Collect implements [prometheus.Collector].
func (c switchCounts) Collect(out chan<- prometheus.Metric) {
	s := c.d.Stats()
	put := func(desc *prometheus.Desc, n uint64, label string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), label)
	}
	put(switchPackets, s.Ingress, "in")
	put(switchPackets, s.Sent, "out")
	for _, x := range s.Drops() {
		put(switchDropped, x.Packets, x.Reason)
	}
}

// printNewDrops says for whom the switch has dropped packets and why, the first time at once and then every ten seconds
// in which there were more: on stderr what is a mistake in the set-up, in the log all.
func printNewDrops(ctx context.Context, d *process.Device, log *slog.Logger, stderr io.Writer) error {
	logged := map[string]uint64{}
	said := map[string]bool{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last, cut := time.Time{}, false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			full := now.Sub(last) >= dropsLogged
			if full {
				last = now
			}
			s := d.Stats()
			if !cut && s.Cut > 0 {
				cut = true
				log.Info("TCP super-frames are cut into segments; with tso off and gso off the hosts do so for less", "frames", s.Cut)
			}
			for _, x := range s.Drops() {
				n := x.Packets - logged[x.Reason]
				if n == 0 || !full && said[x.Reason] {
					continue
				}
				logged[x.Reason], said[x.Reason] = x.Packets, true
				remedy := dropRemedies[x.Reason]
				log.Warn("packets dropped", "reason", x.Reason, "packets", n, "in_all", x.Packets, "remedy", remedy)
				if remedy != "" {
					fmt.Fprintf(stderr, "ethereal switch: %d packets dropped, %d in all: %s; %s\n", n, x.Packets, x.Reason, remedy)
				}
			}
		}
	}
}
