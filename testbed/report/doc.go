// Package report holds the results of runs and shows them: as JSON lines, as a table for a terminal, and as one
// self-contained HTML page with pictures.
//
// A [Result] is the measurement of one run. The functions that show results take any set of them, from one scenario
// or several, in any order. They keep the order of first appearance of failure cases, collectives, notifiers and
// schemes, and group seeds. The package measures and rounds nothing: a number that is printed short is exact in the
// JSON.
//
// The page loads no script, font or image, reads well in light and dark, and prints. Equal results give equal
// bytes.
package report
