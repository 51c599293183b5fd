package process

import (
	"context"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/port"
)

// datapath is a data path in place of, or besides, the interpreter: the program in the kernel, or a model. The device's
// mu is held unless a method says otherwise.
type datapath interface {
	// run does what is due from time to time, until ctx ends. mu is not held.
	run(ctx context.Context) error
	// use loads a switch's program, which may be slow: mu is not held. It returns a function that makes packets
	// pass through the program from then on.
	use(sw *interp.Switch) func()
	// sync takes over what the control side has changed in the tables.
	sync()
	// port follows a port that went up or down.
	port(e *egress)
	// moved follows a port whose interface is another now; old is the index of the one before.
	moved(e *egress, old int) error
	// processInstead takes a packet in the interpreter's place, if it does so.
	processInstead(number uint32, b []byte) bool
	// deliver sends the packets that were taken.
	deliver()
	// waits returns how long an interpreter's packet that leaves now will wait in the queue below the port, and the
	// number of packets before it. sent adds one to that queue.
	waits(e *egress) (ns int64, packets uint32)
	noteSent(e *egress, bytes int)
	// interfaceCounters counts the packets of a port since the switch started. mu is not held.
	interfaceCounters(e *egress) port.Counters
	// counted adds its packets to the device's.
	counted(s *Stats)
	// close ends it. mu is not held, and run has returned.
	close() error
}

// interpreterDatapath is the data path of a switch that has the interpreter alone.
type interpreterDatapath struct{}

func (interpreterDatapath) run(context.Context) error                 { return nil }
func (interpreterDatapath) use(*interp.Switch) func()                 { return func() {} }
func (interpreterDatapath) sync()                                     {}
func (interpreterDatapath) port(*egress)                              {}
func (interpreterDatapath) moved(*egress, int) error                  { return nil }
func (interpreterDatapath) processInstead(uint32, []byte) bool        { return false }
func (interpreterDatapath) deliver()                                  {}
func (interpreterDatapath) waits(*egress) (ns int64, n uint32)        { return 0, 0 }
func (interpreterDatapath) noteSent(*egress, int)                     {}
func (interpreterDatapath) interfaceCounters(e *egress) port.Counters { return e.port.Counters() }
func (interpreterDatapath) counted(*Stats)                            {}
func (interpreterDatapath) close() error                              { return nil }
