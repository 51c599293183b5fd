// Package ctest compares numbers that Go and C share, for tests.
package ctest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Compare compiles a C program and compares the number that it prints for each expression of want with the number
// there. cc is the compiler, includes the lines of #include, args further arguments of the compiler.
func Compare(t *testing.T, cc, includes string, want map[string]int, args ...string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("#include <stddef.h>\n#include <stdio.h>\n" + includes + "int main(void) {\n")
	for text := range want {
		fmt.Fprintf(&b, "printf(\"%%ld %%s\\n\", (long)(%s), \"%s\");\n", text, text)
	}
	b.WriteString("return 0; }\n")
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "abi.c"), filepath.Join(dir, "abi")
	if err := os.WriteFile(src, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, append([]string{"-o", exe, src}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(exe).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for _, line := range lines {
		value, text, _ := strings.Cut(line, " ")
		if got := fmt.Sprint(want[text]); got != value {
			t.Errorf("%s is %s in C, %s in Go", text, value, got)
		}
	}
}
