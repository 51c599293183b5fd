// Package bench has benchmarks of the whole simulator, where possible next to another simulator, and the fabric on
// which its growth is measured. docs/results/performance.md has the commands and their results.
package bench
