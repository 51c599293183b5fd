// Package cluster spreads the runs of a sweep over many machines and brings their results together. It schedules nothing:
// [Slurm] and [Kubernetes] write what an engine that exists carries out.
//
// [Deal] gives each of N tasks its runs: the longest first, to the task that has the least, so that every task finds its
// own without asking anyone. A [Folder] is a folder that all tasks see. Each task adds to a file of its own there, one line
// a run, and [Folder.Status] says what is there, what is missing and what failed. [Merge] makes one file of many, and
// refuses results of the same run that differ.
package cluster
