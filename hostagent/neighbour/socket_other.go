//go:build !linux

package neighbour

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Socket receives and sends an interface's LLDP frames.
type Socket struct{}

// Open returns an error: packet sockets need Linux.
func Open(string) (*Socket, error) {
	return nil, errors.New("neighbour: there are packet sockets on Linux only")
}

// Run does nothing.
func (*Socket) Run(context.Context, *fabric.Fabric, fabric.NodeID, *slog.Logger) error { return nil }
