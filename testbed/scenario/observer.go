package scenario

import (
	"io"
	"log/slog"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// Observer lists what a run should report while it runs. The zero value requests nothing. One run has one Observer,
// and uses it from one goroutine.
type Observer struct {
	// Progress, if not nil, is called at intervals of at most a few tens of milliseconds of wall time. It must
	// return at once.
	Progress func(Progress)

	// Events, if not nil, takes the event log whose hash is in the result. The run buffers its writes, and does not
	// close it.
	Events io.Writer

	// Flows, if not nil, takes a line of CSV for each message, when the run ends. Only the virtual world writes it.
	Flows io.Writer

	// Happened, if not nil, is called for every gNMI notification, P4Runtime write, push and flip, and all other
	// events of the timeline, as they happen.
	Happened func(report.Event)

	// Recorder, if not nil, records the events within the run, as far as the world can.
	Recorder *recording.Recorder

	// Captures are links to capture.
	Captures []Capture

	// Cores is the number of the machine's cores that the run may use; 0 means 1. Regions is the number of parts
	// into which the network is divided; 0 means the most efficient number. They do not affect the result.
	Cores, Regions int

	// Log, if not nil, takes messages for a person who debugs the run.
	Log *slog.Logger
}

// Report passes an event to the observers of events.
func (o *Observer) Report(e report.Event) {
	o.Recorder.Happened(e)
	if o.Happened != nil {
		o.Happened(e)
	}
}

// Progress is the progress of a run.
type Progress struct {
	Now    fabric.Time // simulated time
	Hops   uint64      // packets through switches and hosts, so far
	Events uint64      // simulation events, so far
}

// Capture requests the packets of a link, both directions, as a pcap file with nanosecond times, written to W. The
// run does not close W.
type Capture struct {
	Link fabric.LinkID
	W    io.Writer
}
