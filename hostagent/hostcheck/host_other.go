//go:build !linux

package hostcheck

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/checklist"
)

// Config says which host this is to be.
type Config struct {
	Fabric    *fabric.Fabric
	Host      fabric.NodeID
	Interface string
	MTU       int
	Sys       string
}

// Run returns an error: hosts run Linux.
func Run(Config) ([]checklist.Line, error) {
	return nil, fmt.Errorf("%w: hosts of a fabric run Linux", ErrConfig)
}
