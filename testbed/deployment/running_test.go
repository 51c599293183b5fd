package deployment

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestRunning: a fabric whose controller accepts connections is found; what a killed one left behind is not.
func TestRunning(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(t.TempDir())
	before := len(Running()) // of this machine's Mininet
	var lis net.Listener
	for _, name := range []string{"killed", "up"} {
		dir := filepath.Join(os.TempDir(), LivePrefix+name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(dir, "admin.sock")
		d := &File{Fabric: "fabric.yaml", Targets: "targets.yaml", Admin: "unix:" + socket, Hosts: []string{"h0.sock"}}
		if err := d.Write(filepath.Join(dir, FileName)); err != nil {
			t.Fatal(err)
		}
		if name == "up" {
			var err error
			if lis, err = net.Listen("unix", socket); err != nil {
				t.Fatal(err)
			}
		}
	}
	up := Running()
	if len(up) != before+1 || filepath.Dir(up[0].Fabric) != filepath.Join(os.TempDir(), LivePrefix+"up") {
		t.Errorf("%d fabrics: %+v", len(up), up)
	}
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
	if after := Running(); len(after) != before {
		t.Errorf("%d fabrics when none is up", len(after)-before)
	}
}
