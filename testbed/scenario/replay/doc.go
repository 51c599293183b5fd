// Package replay has a virtual run suffer what a controller saw happen to a real
// fabric: it reads the controller's event log and makes of it the failures and
// interventions of a run.
//
// What the log's ports did happens to the run's links at the log's times: a link is
// cut when its first end went down and whole again when no end is down any more,
// whether the controller believed it or held it for flapping. What operators drained
// is drained, and where the log says that the controller ended and started again, so
// does the run's. Everything else in a log, tables written, agents notified, links
// suspected, is what the run's own cores are there to find out.
//
// A log is minutes or days, a collective is milliseconds: [Window] says which part of
// the log the run gets, and how fast it goes by.
//
// # Traps
//
// Times are those at which the controller received an event, later than the event by
// the detection's and the notification's delay. A controller that was killed left no
// record of its end: it is taken to have ended with its last record.
package replay
