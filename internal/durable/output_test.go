//go:build unix

package durable_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/durable"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutput: an existing file has its old content until the new one is complete, and after an error.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	path, link, hard := filepath.Join(dir, "out"), filepath.Join(dir, "link"), filepath.Join(dir, "hard")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o640), os.Symlink("out", link), os.Link(path, hard)); err != nil {
		t.Fatal(err)
	}
	for _, fails := range []bool{true, false} {
		o, err := durable.Create(t.Context(), link)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(o, "new"); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, path); got != "old" {
			t.Errorf("before the end: %q", got)
		}
		if fails {
			o.Fail(syscall.ENOSPC)
		}
		if err := o.Close(); fails != errors.Is(err, syscall.ENOSPC) || !fails && err != nil {
			t.Errorf("close: %v", err)
		}
		if want := map[bool]string{true: "old", false: "new"}[fails]; readFile(t, path) != want {
			t.Errorf("%q, not %q", readFile(t, path), want)
		}
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if readFile(t, hard) != "old" {
		t.Error("another name of the file has lost its content")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	o, err := durable.Create(t.Context(), filepath.Join(dir, "fresh")) // can be read while it is written
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close() //nolint:errcheck // the test is over
	if _, err := io.WriteString(o, "line"); err != nil || readFile(t, filepath.Join(dir, "fresh")) != "line" {
		t.Errorf("a new file: %v", err)
	}
}

// TestOutputPipe: neither a pipe without a reader nor one whose reader does not read outlives the context.
func TestOutputPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := durable.Create(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("without a reader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close() //nolint:errcheck // only read
	ctx, cancel = context.WithCancel(t.Context())
	o, err := durable.Create(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close() //nolint:errcheck // the test is over
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := o.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a reader that does not read: %v", err)
	}
}
