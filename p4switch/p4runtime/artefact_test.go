package p4runtime

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// The committed JSON and P4Info are what p4c makes of the sources. Set P4C
// to the compiler, and P4C_INCLUDE if it does not find v1model.p4 by itself.
func TestArtefactsMatchSource(t *testing.T) {
	p4c := systemtest.Program(t, "p4c-bm2-ss", "P4C", "name p4c's compiler for BMv2 in P4C")
	dir := t.TempDir()
	for _, name := range []string{"everything", "routes", "field"} {
		json, info := name+".json", name+".p4info.txtpb"
		args := []string{"--arch", "v1model", "-o", filepath.Join(dir, json), "--p4runtime-files", filepath.Join(dir, info), name + ".p4"}
		if include := os.Getenv("P4C_INCLUDE"); include != "" {
			args = append([]string{"-I", include}, args...)
		}
		cmd := exec.Command(p4c, args...)
		cmd.Dir = "testdata"
		if out, err := cmd.CombinedOutput(); err != nil {
			if bytes.Contains(out, []byte("v1model.p4: No such file")) {
				t.Skip("p4c does not find v1model.p4; set P4C_INCLUDE")
			}
			t.Fatalf("%v: %s", err, out)
		}
		for _, file := range []string{json, info} {
			want, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join("testdata", file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s is not what p4c makes of %s.p4; compile it anew", file, name)
			}
		}
	}
}
