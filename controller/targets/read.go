package targets

import (
	"errors"
	"fmt"
	"io"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"
)

// Limits of a switch's answer to one Read: a switch may send without end.
const (
	maxRead      = 1 << 20 // maximum number of entities, and of messages, of one Read
	maxReadBytes = 256 << 20
)

// ErrEndless is wrapped by [ReadEntities] if a switch's answer exceeds the limits.
var ErrEndless = errors.New("targets: the switch's answer has no end")

// ReadEntities passes a switch's answer to a Read to take, message by message. After an error the caller ends the
// stream.
func ReadEntities(stream p4.P4Runtime_ReadClient, take func([]*p4.Entity)) error {
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
			return fmt.Errorf("%w: more than %d messages or entities, or %d bytes; check what answers at its address", ErrEndless, maxRead, maxReadBytes)
		}
		take(r.GetEntities())
	}
}
