//go:build linux

package device

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
)

// TestRefusalsAreCounted: a program that is refused again and again does not fill the log.
func TestRefusalsAreCounted(t *testing.T) {
	var log bytes.Buffer
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // only read
	n := New(Config{Fabric: newWire(t).nics[0].cfg.Fabric, Payload: 1024, Log: slog.New(slog.NewTextHandler(&log, nil))}, end{})
	for range 1000 {
		if _, _, err := n.open(int(file.Fd()), 1, memoryMap{}); err == nil {
			t.Fatal("a file that is no program's memory was taken")
		}
	}
	if lines := bytes.Count(log.Bytes(), []byte("a program was refused")); lines == 0 || lines > 100 {
		t.Errorf("%d lines of 1000 refusals, not one a second", lines)
	}
}
