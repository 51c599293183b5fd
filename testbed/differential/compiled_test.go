package differential

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/stf/stftest"
)

func TestCompiled(t *testing.T) { stftest.Compiled(t, "testdata") }
