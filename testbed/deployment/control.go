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

// Order is what the maker of a fabric is asked to do, which can end and start its processes: a line of JSON, answered by
// another.
type Order struct {
	Do   string             `json:"do"` // status, gray, rate, or a thing and -down or -up: node, link, agent, controller
	Name string             `json:"name,omitempty"`
	Way  scenario.Direction `json:"way,omitempty"`  // of gray and rate; empty: both
	Loss float64            `json:"loss,omitempty"` // of gray, a share; 0: no more
	Rate int64              `json:"rate,omitempty"` // of rate, bits/s; 0: the link's own
}

// Answer is what the maker says to an order.
type Answer struct {
	Error    string    `json:"error"`
	Machines []Machine `json:"machines"` // to status, of a fabric on several
}

// Machine is one of several that have a fabric.
type Machine struct {
	Name string `json:"name"`
	Lost string `json:"lost"` // why; empty: it is not
}

// Ask has the maker of the fabric carry an order out, over its control socket.
func (d *File) Ask(ctx context.Context, o Order) (answer Answer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.Control)
	if err != nil {
		return answer, err
	}
	defer conn.Close() //nolint:errcheck // the answer was read
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return answer, err
		}
	}
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		return answer, err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, 1<<20)).ReadBytes('\n')
	if err != nil {
		return answer, fmt.Errorf("no answer: %w", err)
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return answer, fmt.Errorf("the answer is not understood: %w", err)
	}
	if answer.Error != "" {
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}
