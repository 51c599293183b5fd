package live

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// MPI says how to run a program with Open MPI on the hosts of the running fabric.
type MPI struct {
	Ranks int      // number of processes; 0: one per host
	Env   []string // NAME or NAME=VALUE: variables to pass on
}

// Run runs a program by mpirun, and returns mpirun's exit code.
func (m *MPI) Run(program []string) (int, error) {
	socket, err := findRunning()
	if err != nil {
		return 0, err
	}
	spec, err := fabric.LoadSpec(filepath.Join(filepath.Dir(socket), "fabric.yaml"))
	if err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	f, err := fabric.NewSinglePlane(spec, "the live world")
	if err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	if m.Ranks < 0 {
		return 0, fmt.Errorf("live: %d ranks", m.Ranks)
	}
	if _, err := exec.LookPath("mpirun"); err != nil {
		return 0, errors.New("live: there is no mpirun; install Open MPI (Debian: openmpi-bin)")
	}
	exe, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("live: %w", err)
	}
	if strings.ContainsAny(exe, " \t") { // plm_rsh_agent is cut at each
		return 0, fmt.Errorf("live: mpirun cannot start %q, whose path has a space; put the program where none has", exe)
	}
	return Exec(f.Name(0), m.command(f, exe, os.Environ(), program))
}

// command returns mpirun's command line.
func (m *MPI) command(f *fabric.Fabric, exe string, environ, program []string) []string {
	ranks := m.Ranks
	if ranks == 0 {
		ranks = f.Hosts()
	}
	used := min(ranks, f.Hosts())
	hosts := make([]string, used)
	for h := range hosts {
		hosts[h] = fmt.Sprintf("%s:%d", f.Name(fabric.NodeID(h)), (ranks+used-1)/used)
	}
	command := []string{
		"mpirun", "--allow-run-as-root", // which everybody is in the sandbox
		"--mca", "plm_rsh_agent", exe + " live rsh", "--mca", "oob_tcp_if_include", HostInterface,
		"--mca", "btl", "self", "--mca", "pml", "ucx",
		// Open MPI's daemons end with what started them, whatever becomes of mpirun.
		"--mca", "orte_leave_session_attached", "1",
		// The hosts share this machine's processors, of which each believes that it has them all.
		"--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
		"-H", strings.Join(hosts, ","), "-n", fmt.Sprint(ranks),
	}
	transports := true
	for _, v := range environ {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "UCX_") {
			command = append(command, "-x", name)
			transports = transports && name != "UCX_TLS"
		}
	}
	if transports {
		command = append(command, "-x", "UCX_TLS=rc_v,ud_v,self")
	}
	for _, v := range m.Env {
		command = append(command, "-x", v)
	}
	return append(command, program...)
}
