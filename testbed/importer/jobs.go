package importer

import "github.com/ethereal-fabric/ethereal/fabric"

// Job is a job of a workload file.
type Job struct {
	Kind      string       `yaml:"kind"`
	Algorithm string       `yaml:"algorithm"`
	Bytes     fabric.Bytes `yaml:"bytes"`
	Ranks     string       `yaml:"ranks"`
}
