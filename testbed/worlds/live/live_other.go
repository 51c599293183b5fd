//go:build !linux

package live

import (
	"context"
	"errors"
	"os"

	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// ErrLinux says that the live world takes Linux.
var ErrLinux = errors.New("live: it takes Linux: network namespaces, veth pairs and packet sockets")

// Inside is never true here.
func Inside() (dir string, ok bool) { return "", false }

// Enter is not possible here.
func Enter(context.Context, []string, *os.File) (int, error) { return 0, ErrLinux }

// Page is of no use here.
type Page struct{ URL string }

// ListenPage is not possible here.
func ListenPage(string) (*os.File, error) { return nil, ErrLinux }

// PassedPage is not possible here.
func PassedPage(string) (*Page, error) { return nil, ErrLinux }

// Runner cannot run here.
type Runner struct{}

// NewRunner returns a runner that cannot run.
func NewRunner(Base) *Runner { return &Runner{} }

// Run is not possible here.
func (*Runner) Run(context.Context, scenario.Run, scenario.Observer) (*report.Result, error) {
	return nil, ErrLinux
}

// Close does nothing.
func (*Runner) Close() {}

// Exec is not possible here.
func Exec(string, []string) (int, error) { return 0, ErrLinux }

// Down is not possible here.
func Down() error { return ErrLinux }
