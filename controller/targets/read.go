package targets

import (
	"errors"
	"fmt"
	"io"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

// What a switch may answer to one Read: it may send without end.
const (
	maxRead      = 1 << 20 // entities, and messages
	maxReadBytes = 256 << 20
)

// ErrEndless is wrapped by [Entities] when a switch's answer is given up.
var ErrEndless = errors.New("targets: the switch's answer has no end")

// Entities hands what a switch answers to a Read to take, message by message. The caller ends the stream if it fails.
func Entities(stream p4.P4Runtime_ReadClient, take func([]*p4.Entity)) error {
	for messages, entities, size := 1, 0, 0; ; messages++ {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		entities, size = entities+len(r.GetEntities()), size+proto.Size(r)
		if messages > maxRead || entities > maxRead || size > maxReadBytes {
			return fmt.Errorf("%w: more than %d messages or entities, or %d bytes; look what the switch is", ErrEndless, maxRead, maxReadBytes)
		}
		take(r.GetEntities())
	}
}
