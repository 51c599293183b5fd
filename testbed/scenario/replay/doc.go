// Package replay repeats a real fabric's failures in a virtual run: it reads a controller's event log and converts
// it to the failures and interventions of a run.
//
// The log's port events happen to the run's links at the log's times. A link is cut when its first end went down,
// and restored when no end is down any more, whether the controller believed the event or held it for flapping.
// Operators' drains are drained, and where the log shows that the controller ended and started again, the run's
// controller does too. The run's own cores have to find everything else in a log: tables written, agents notified,
// links suspected.
//
// A log covers minutes or days, a collective milliseconds: [Window] selects the part of the log that the run gets,
// and the factor between the two clocks.
//
// # Traps
//
// Times are those at which the controller received an event, later than the event by the detection's and the
// notification's delay. A controller that was killed left no record of its end; its last record counts as its end.
package replay
