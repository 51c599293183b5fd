package tagger

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestChecksums checks that the committed object was made of the committed
// source.
func TestChecksums(t *testing.T) {
	sums, err := os.ReadFile("SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(sums)) {
		want, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			continue // clang's version
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := sha256.Sum256(b)
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("%s is not what the object was compiled of: run `go generate ./hostagent/tagger`", name)
		}
		n++
	}
	if n != 2 {
		t.Errorf("SHA256SUMS names %d files, want the source and the object", n)
	}
}

// TestRebuild compiles the source again and compares. Another clang makes
// other bytes, so it needs the one that made the object.
func TestRebuild(t *testing.T) {
	for _, tool := range []string{"clang", "llvm-strip"} {
		systemtest.Program(t, tool, "", "apt-get install clang llvm")
	}
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		t.Skipf("no headers of libbpf: Debian has them in libbpf-dev: %v", err)
	}
	version, err := exec.Command("clang", "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	have, _, _ := strings.Cut(string(version), "\n")
	sums, err := os.ReadFile("SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	made, _, _ := strings.Cut(string(sums), "\n")
	if made != "# "+have {
		t.Skipf("this is %s, the object was made by %s", have, strings.TrimPrefix(made, "# "))
	}
	out := filepath.Join(t.TempDir(), "o")
	if text, err := exec.Command("sh", "generate.sh", out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, object) {
		t.Error("the source compiles to something else than tagger_bpfel.o: run `go generate ./hostagent/tagger`")
	}
}

// TestPowers checks the table against the CRC of the standard library: a change
// of one bit, n bytes before the end, must be the product.
func TestPowers(t *testing.T) {
	p := portContributions()
	zeros := make([]byte, len(p))
	for _, n := range []int{8, 9, 24, 255, 256, 1500, 4120, 9024, 65535} {
		a, b := bytes.Clone(zeros[:n-6]), bytes.Clone(zeros[:n-6])
		b = append([]byte{0, 1}, b...) // bit 8 of the two bytes, the highest power but seven
		a = append([]byte{0, 0}, a...)
		want := crc32.ChecksumIEEE(a) ^ crc32.ChecksumIEEE(b)
		// The port's bits are a polynomial below x^16, its second byte's lowest
		// bit x^7: times x^32 for the CRC's register and x^8(n-6) for what
		// follows, which is x^7 times the table's x^8(n-2).
		got := p[n]
		for range 7 {
			got = got>>1 ^ crc32.IEEE*(got&1)
		}
		if got != want {
			t.Errorf("n=%d: %#08x, want %#08x", n, got, want)
		}
	}
}
