package tagger

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// TestPinDirectory: a pin directory in which, or in whose place, another user could put maps is refused.
func TestPinDirectory(t *testing.T) {
	make := func(name string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in := func(path string) string { return filepath.Join(path, "pins") }
	link := filepath.Join(t.TempDir(), "link")
	file := filepath.Join(t.TempDir(), "file")
	foreign := make("foreign", 0o700)
	if err := errors.Join(os.Symlink(make("target", 0o700), link), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path string
		ok         bool
	}{
		{"new", in(make("own", 0o700)), true},
		{"there already", make("own", 0o755), true},
		{"below a folder of everybody's, with the sticky bit", in(make("tmp", 0o777|os.ModeSticky)), true},
		{"below a folder of everybody's", in(make("open", 0o777)), false},
		{"everybody's", make("open", 0o777|os.ModeSticky), false},
		{"a group's", make("group", 0o775), false},
		{"a symbolic link", link, false},
		{"through a symbolic link", in(link), true},
		{"a file", file, false},
	} {
		real, err := pinDirectory(tt.path)
		if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, labeller.ErrInvalid) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if want, _ := filepath.EvalSymlinks(tt.path); tt.ok && real != want {
			t.Errorf("%s: %s, want %s", tt.name, real, want)
		}
	}
	if os.Geteuid() != 0 {
		return // only root gives folders away
	}
	if err := os.Chown(foreign, 12345, 12345); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{foreign, in(foreign)} {
		if _, err := pinDirectory(path); !errors.Is(err, labeller.ErrInvalid) {
			t.Errorf("%s of another user: %v", path, err)
		}
	}
}
