package live

import "log/slog"

// Where a live fabric's switches carry their program out: see `ethereal switch
// --datapath`.
const (
	Interpreter = "interpreter" // in their process; empty means it too
	Kernel      = "kernel"      // as eBPF in the kernel, and in their process what that cannot
)

// Base is what the fabrics have in common that one world makes, one after the other.
type Base struct {
	Dir      string // for sockets and logs
	Page     *Page  // what controllers serve the fabric's page at; nil: nothing
	Datapath string // Interpreter or Kernel
	Log      *slog.Logger
}
