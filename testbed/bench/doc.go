// Package bench holds benchmarks of the simulator as a whole, beside another one where there is one to compare with, and
// the fabric on which its growth is measured. docs/results/performance.md has the commands and what they gave.
package bench
