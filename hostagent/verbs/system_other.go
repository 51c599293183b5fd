//go:build !(verbs && cgo && linux)

package verbs

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// System returns libibverbs and libmlx5 as a provider, or an error in builds without them.
func System() (Provider, error) {
	return nil, fmt.Errorf("%w: verbs: built without libibverbs: build with cgo and -tags verbs, and Debian's libibverbs-dev", labeller.ErrUnsupported)
}
