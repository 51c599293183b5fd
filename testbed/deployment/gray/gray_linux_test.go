package gray

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestSetFails: of interfaces that cannot all lose packets none goes on to, and a
// share too small to be distinguished from none is refused.
func TestSetFails(t *testing.T) {
	systemtest.Only(t)
	var g Losses
	for _, loss := range []float64{1e-6, -0.1, 1.5} {
		if err := g.Set("a-b", nil, loss); err == nil {
			t.Errorf("a loss of %v is taken", loss)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("takes root")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip("takes a network namespace: ", err)
	}
	if err := g.Set("a-b", []string{"lo"}, 0.5); err != nil {
		t.Skip(err)
	}
	if err := g.Set("a-b", []string{"lo", "missing"}, 0.5); err == nil || len(g.links) != 0 {
		t.Errorf("error %v, %d links still lose", err, len(g.links))
	}
}
