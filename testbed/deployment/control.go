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

// Order is a request to the maker of a fabric, which can end and start its processes: a line of JSON, answered by
// another line.
type Order struct {
	Do   string             `json:"do"` // status, gray, rate, or a part with -down or -up: node, link, agent, controller
	Name string             `json:"name,omitempty"`
	Way  scenario.Direction `json:"way,omitempty"`  // for gray and rate; empty: both
	Loss float64            `json:"loss,omitempty"` // for gray, a share; 0: none
	Rate int64              `json:"rate,omitempty"` // for rate, bits/s; 0: the link's own
}

// Answer is the maker's answer to an order.
type Answer struct {
	Error    string    `json:"error"`
	Machines []Machine `json:"machines"` // to status, for a fabric on several machines
}

// Machine is one of the machines of a fabric.
type Machine struct {
	Name string `json:"name"`
	Lost string `json:"lost"` // why it is lost; empty: it is not
}

// Ask sends an order to the maker of the fabric, over its control socket.
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
