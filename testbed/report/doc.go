// Package report holds the results of runs and shows them: as JSON lines, as a
// table for a terminal, and as one self-contained HTML page with pictures.
//
// A [Result] is what one run measured. The functions that show results take any
// set of them, from one scenario or several, in any order; they keep the order
// of first appearance of failure cases, collectives, notifiers and schemes, and
// put seeds together. Nothing is measured here, and nothing rounded: what is
// printed short is exact in the JSON.
//
// The page needs no script, font or image from anywhere, reads well in light
// and dark, and prints. Equal results give equal bytes.
package report
