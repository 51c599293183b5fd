//go:build !linux

package live

import (
	"context"
	"errors"
	"io"
	"os"
)

// ErrLinux is returned on other systems: the live world requires Linux.
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

// Exec is not possible here.
func Exec(string, []string) (int, error) { return 0, ErrLinux }

// Down is not possible here.
func Down(context.Context, io.Writer) error { return ErrLinux }
