package bmv2

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestThriftOptions(t *testing.T) {
	for usage, want := range map[string][]string{
		"  --thrift-port arg  TCP port": {"--thrift-port", "9"},
		"  --device-id arg":             nil,
	} {
		program := filepath.Join(t.TempDir(), "simple_switch_grpc")
		if err := os.WriteFile(program, []byte("#!/bin/sh\necho '"+usage+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := ThriftOptions(program, 9); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", usage, got, want)
		}
	}
	if got := ThriftOptions("", 9); len(got) != 2 {
		t.Errorf("a program that does not run: %v", got)
	}
}
