package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/ethereal-fabric/ethereal/testbed/p4switch/process"
)

// dropsTold is how often a switch says what it has dropped since.
const dropsTold = 10 * time.Second

// dropRemedies say what to do about drops that are a mistake in the set-up. Others are the program's will, or a full queue.
var dropRemedies = map[string]string{
	"priority out of range": "give the switch more --priority-queues, as many as the highest priority and one",
	"no program":            "push a program over P4Runtime, or name its JSON",
	"no port":               "the program sends to a port that has no interface: compare -i with the tables",
}

// tellDrops says for whom the switch has dropped packets and why, the first time at once and then every ten seconds in which there
// were more: on stderr what is a mistake in the set-up, in the log all.
func tellDrops(ctx context.Context, d *process.Device, log *slog.Logger, stderr io.Writer) error {
	told := map[string]uint64{}
	said := map[string]bool{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-tick.C:
			full := now.Sub(last) >= dropsTold
			if full {
				last = now
			}
			for _, x := range d.Stats().Drops() {
				n := x.Packets - told[x.Reason]
				if n == 0 || !full && said[x.Reason] {
					continue
				}
				told[x.Reason], said[x.Reason] = x.Packets, true
				remedy := dropRemedies[x.Reason]
				log.Warn("packets dropped", "reason", x.Reason, "packets", n, "in_all", x.Packets, "remedy", remedy)
				if remedy != "" {
					fmt.Fprintf(stderr, "ethereal switch: %d packets dropped, %d in all: %s; %s\n", n, x.Packets, x.Reason, remedy)
				}
			}
		}
	}
}
