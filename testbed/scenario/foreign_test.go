package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// A file that is named and is no fabric is not printed.
func TestForeignFilesAreNotPrinted(t *testing.T) {
	for name, text := range map[string]string{
		"shadow":  "root:$6$secret:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
		"keys":    "secret: hunter2\nother: secret\n",
		"broken":  "secret: [1, 2\nsecret",
		"list":    "- secret\n- secret\n",
		"anchors": "a: *secret\n",
		"tagged":  "!!int secret\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "foreign"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		main := filepath.Join(dir, "scenario.yaml")
		if err := os.WriteFile(main, []byte("fabric: foreign\nscheme: ecmp\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := scenario.Load(main)
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "is not a fabric") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
