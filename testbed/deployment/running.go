package deployment

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FileName is the deployment's file in the folder of a fabric that runs on this machine.
const FileName = "deployment.json"

// Folders of fabrics that run on this machine.
const (
	LivePrefix  = "ethereal-live-"        // of ethereal live up, among the system's temporary files
	MachinesDir = "ethereal-live"         // of ethereal live up --on, in the working folder
	MininetDir  = "/run/ethereal-mininet" // of ethereal mininet
)

// Running returns the fabrics of this machine whose controllers accept connections. What a killed fabric left behind, and
// what this user may not read, is not among them.
func Running() (up []*File) {
	files, _ := filepath.Glob(filepath.Join(os.TempDir(), LivePrefix+"*", FileName)) // the pattern is good
	files = append(files, filepath.Join(MachinesDir, FileName), filepath.Join(MininetDir, FileName))
	for _, path := range files {
		if d, err := Load(path); err == nil && accepts(d.Admin) {
			up = append(up, d)
		}
	}
	return up
}

// acceptLimit is how long a controller on this machine may take to accept a connection.
const acceptLimit = time.Second

// accepts reports whether somebody listens at HOST:PORT or unix:PATH.
func accepts(addr string) bool {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	c, err := net.DialTimeout(network, addr, acceptLimit)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
