// Package cluster spreads the runs of a sweep over many machines and merges their results. It does not schedule:
// [Slurm] and [Kubernetes] write job files for an existing engine.
//
// [AssignShards] assigns runs to each of N tasks: the longest first, to the task with the least work. So every task
// computes its own runs without communication. A [Folder] is a folder that all tasks see. Each task appends to its
// own file there, one line per run. [Folder.Status] reports which runs are there, missing, or failed. [Merge] makes
// one file of many, and refuses different results of the same run.
package cluster
