//go:build !linux

package hostcheck

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// Run returns an error: hosts need Linux.
func Run(Config) ([]checklist.Line, error) {
	return nil, fmt.Errorf("%w: hosts of a fabric run Linux", ErrConfig)
}
