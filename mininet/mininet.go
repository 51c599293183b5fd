// Package mininet is the Python that boots fabrics in Mininet, so that a binary carries what it starts.
package mininet

import "embed"

// Files has the scripts, the package etherealnet, the fabric that is booted without another, and the experiments.
//
//go:embed run.py etherealnet/*.py fabric.yaml experiments/*.yaml
var Files embed.FS
