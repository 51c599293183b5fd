package deployment

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/ethereal-fabric/ethereal/testbed/scenario"
)

// Order is a request to the process that started the fabric, and so can end and start its processes: a line of JSON,
// answered by another line.
type Order struct {
	Do        string             `json:"do"` // gray, rate, or node, link, agent or controller with -down or -up
	Name      string             `json:"name,omitempty"`
	Direction scenario.Direction `json:"way,omitempty"`  // for gray and rate: the link's direction; empty: both
	Loss      float64            `json:"loss,omitempty"` // for gray: fraction of packets to lose; 0: none
	Rate      int64              `json:"rate,omitempty"` // for rate, bits/s; 0: the link's own
}

// Order sends a request to the process that started the fabric, over its control socket, and waits for the answer.
func (d *File) Order(ctx context.Context, o Order) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.Control)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the answer was read
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		return err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, 1<<20)).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	var answer struct{ Error string }
	if err := json.Unmarshal(line, &answer); err != nil {
		return fmt.Errorf("the answer is not understood: %w", err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}
