package scenario

import (
	"io"
	"log/slog"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
)

// Observer is what a run is asked to report while it goes. The zero value asks
// for nothing. One run has one Observer, and uses it from one goroutine.
type Observer struct {
	// Progress, when not nil, is called now and then, at least every few tens
	// of milliseconds of wall time. It returns at once.
	Progress func(Progress)

	// Events, when not nil, takes the event log whose hash the result has. The
	// run buffers what it writes, and does not close it.
	Events io.Writer

	// Happened, when not nil, is called for every gNMI notification, P4Runtime
	// write, push and flip, and what else stands on the timeline, as it happens.
	Happened func(Happening)

	// Recorder, when not nil, takes down what happens within the run, as far as the world can tell.
	Recorder *recording.Recorder

	// ControllerLog, when not nil, takes what the run's controller receives, decides, writes
	// and sends, as the controller's process logs it.
	ControllerLog *eventlog.Log

	// Captures are links to capture.
	Captures []Capture

	// Cores is how many cores of the machine the run may use; 0 is 1. Regions is how
	// many parts the network is cut into; 0 is as many as pay. They make no difference
	// to the result.
	Cores, Regions int

	// Log, when not nil, takes what a person debugging the run wants to know.
	Log *slog.Logger
}

// Progress is how far a run is.
type Progress struct {
	Now    fabric.Time // simulated
	Hops   uint64      // packets through switches and hosts, so far
	Events uint64      // simulation events, so far
}

// Capture asks for the packets of a link, both directions, as a pcap file with
// nanosecond times, written to W. The run does not close W.
type Capture struct {
	Link fabric.LinkID
	W    io.Writer
}
