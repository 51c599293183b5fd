package scenario

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/testbed/sim"
)

// PFC is the priority flow control (IEEE 802.1Qbb) of data packets. The zero value means none.
type PFC struct {
	Alpha    float64      `yaml:"alpha"`    // a port is paused above this multiple of the free buffer, or
	Xoff     fabric.Bytes `yaml:"xoff"`     // or: a port is paused above this many bytes
	Xon      fabric.Bytes `yaml:"xon"`      // a paused port is resumed at this many bytes
	Watchdog fabric.Time  `yaml:"watchdog"` // a port paused for this long drops its data; 0: never
}

// check checks what needs no fabric. Package sim checks the rest.
func (p PFC) check(bad reportError) {
	switch {
	case p.Alpha != 0 && !(p.Alpha >= minAlpha && p.Alpha <= maxAlpha):
		bad("switch.pfc.alpha", fmt.Sprintf("%v is outside 1/256 to 1024", p.Alpha), "write for example 1, or 0 for none")
	case p.Alpha > 0 && p.Xoff > 0:
		bad("switch.pfc.xoff", "is given beside alpha", "keep one of the two")
	case p.Xon > 0 && p.Xon >= p.Xoff:
		bad("switch.pfc.xon", fmt.Sprintf("%v is not below xoff (%v)", p.Xon, p.Xoff), "write less, or leave it out")
	case p.Watchdog > 0 && p.Alpha == 0 && p.Xoff == 0:
		bad("switch.pfc.watchdog", "is given without alpha or xoff", "add one of them, or remove it")
	case p.Watchdog > 1000*fabric.Second:
		bad("switch.pfc.watchdog", fmt.Sprintf("%v is more than 1000s", p.Watchdog), "write for example 200ms")
	}
}

// FlowControl returns the switches' flow control in package sim's form.
func (s *Scenario) FlowControl() sim.PFC {
	p := s.Switch.PFC
	if p.Alpha == 0 && p.Xoff == 0 {
		return sim.PFC{}
	}
	// IPv6, a RETH and 4 B of padding: no packet is longer.
	const headers = 14 + 40 + 8 + frame.BTHSize + frame.RETHSize + frame.ICRCSize + 4
	return sim.PFC{
		Alpha: p.Alpha, Xoff: p.Xoff, Xon: p.Xon, Watchdog: p.Watchdog, Frame: int(s.Host.Payload) + headers,
	}
}
