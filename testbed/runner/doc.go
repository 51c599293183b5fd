// Package runner carries out the runs of scenarios in a world: it makes the healthy run
// that the times of failures may be shares of, and says in each result when the first
// failure came.
package runner
