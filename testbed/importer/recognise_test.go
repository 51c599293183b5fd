//go:build unix

package importer_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/importer"
)

// TestRecogniseFIFO: a FIFO that nobody writes to is not waited for.
func TestRecogniseFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := importer.RecogniseFile(path); ok {
		t.Error("a FIFO is recognised")
	}
}
