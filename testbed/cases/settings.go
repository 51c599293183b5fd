package cases

import (
	"fmt"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// settings are the drawn settings of switches and hosts.
type settings struct {
	switches, hosts []string // keys and values
	pfc             bool
	buffer          int64
	alpha           float64
	payload         int64
	rto             fabric.Time
	ackEvery        int64
	control         string // rate control
}

const kilo, mega = 1000, 1000 * 1000

// drawSwitches draws buffers, marks and flow control.
func (s *settings) drawSwitches(d *dice, n drawnFabric) {
	s.buffer, s.alpha = 64*mega, 1
	if !d.percent(55) {
		s.buffer = pick[int64](d, 512*kilo, mega, 2*mega, 4*mega, 8*mega, 16*mega, 32*mega)
		s.set("buffer", size(s.buffer))
	}
	if d.percent(20) {
		s.alpha = pick(d, 0.125, 0.25, 0.5, 2, 8)
		s.set("alpha", fmt.Sprint(s.alpha))
	}
	// The default of 800 KB is for 400 Gb/s.
	if least := s.buffer / 4; d.percent(55) || least < 800*kilo {
		kmin := d.logUniform(20*kilo, 6) / kilo * kilo
		kmax := kmin * pick[int64](d, 1, 2, 4)
		kmin, kmax = min(kmin, least), min(kmax, least)
		s.set("ecn", fmt.Sprintf("{kmin: %s, kmax: %s, pmax: %s}", size(kmin), size(kmax), pick(d, "1", "0.2", "0.1")))
	}
	if d.percent(25) && n.planes() == 1 && s.buffer >= 32*mega && n.spec.Kind != fabric.KindDragonfly {
		s.pfc = true
		s.set("pfc", fmt.Sprintf("{alpha: %s}", pick(d, "0.125", "0.5", "1")))
	}
}

// drawHosts draws transports and rate controls.
func (s *settings) drawHosts(d *dice) {
	s.payload = weighted(d,
		weightedValue[int64]{35, 9000}, weightedValue[int64]{30, 4096}, weightedValue[int64]{10, 2048}, weightedValue[int64]{5, 1500},
		weightedValue[int64]{20, 1000})
	if s.payload != 9000 {
		s.host("payload", fmt.Sprintf("%dB", s.payload))
	}
	s.ackEvery = weighted(d,
		weightedValue[int64]{70, 1}, weightedValue[int64]{10, 2}, weightedValue[int64]{10, 4}, weightedValue[int64]{5, 8}, weightedValue[int64]{5, 16})
	if s.ackEvery > 1 {
		s.host("ack_every", fmt.Sprint(s.ackEvery))
	}
	s.control = weighted(d,
		weightedValue[string]{40, "dctcp"}, weightedValue[string]{20, "dcqcn"}, weightedValue[string]{20, "swift"},
		weightedValue[string]{17, "nscc"}, weightedValue[string]{3, "none"})
	if s.control != "dctcp" {
		s.host("congestion_control", s.control)
	}
	switch receiver := weighted(d,
		weightedValue[string]{75, ""}, weightedValue[string]{20, "selective-repeat"}, weightedValue[string]{5, "ideal"}); receiver {
	case "":
	case "selective-repeat":
		s.host("receiver", receiver)
		if window := pick(d, 0, 0, 128, 1024); window > 0 {
			s.host("reorder_window", fmt.Sprint(window))
		}
	default:
		s.host("receiver", receiver)
	}
	if d.percent(15) {
		s.host("resend_on_flip", "false")
	}
	s.rto = fabric.Millisecond
	if d.percent(15) {
		s.rto = pick(d, 500*fabric.Microsecond, 2*fabric.Millisecond, 4*fabric.Millisecond)
		s.host("rto", s.rto.String())
	}
}

func (s *settings) set(key, value string)  { s.switches = append(s.switches, key+": "+value) }
func (s *settings) host(key, value string) { s.hosts = append(s.hosts, key+": "+value) }

// yaml writes the keys switch and host.
func (s *settings) yaml(b *strings.Builder) {
	for _, part := range []struct {
		key  string
		list []string
	}{{"switch", s.switches}, {"host", s.hosts}} {
		if len(part.list) > 0 {
			fmt.Fprintf(b, "%s: {%s}\n", part.key, strings.Join(part.list, ", "))
		}
	}
}

func size(n int64) string { return fabric.Bytes(n).String() }
