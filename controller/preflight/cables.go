package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// cables compares the cables with the fabric: by the leading controller if there is one, otherwise by asking the
// switches.
func (c *checker) cables(ctx context.Context, leader *string) error {
	if leader != nil && *leader == "" {
		c.list.Add(checklist.Unseen, wholeFabric, "cabling", "no controller is primary of any switch", "see the lines above; then ethereal topo check")
		return nil
	}
	if leader != nil && c.Token == "" {
		c.list.Add(checklist.Unseen, wholeFabric, "cabling", "the controller checks cables only for clients that have its token", "give --admin-token-file")
		return nil
	}
	r, err := c.checkCables(ctx, leader, 0)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	refused := (*adminhttp.Refusal)(nil)
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusConflict:
		c.list.Add(checklist.Unseen, wholeFabric, "cabling", "another client is checking the cables", "ask again in a minute")
		return nil
	case errors.As(err, &refused) && (refused.Code == http.StatusForbidden || refused.Code == http.StatusUnauthorized):
		c.list.Add(checklist.Red, wholeFabric, "cabling", err.Error(), "give the controller's own file as --admin-token-file")
		return nil
	case err != nil:
		c.list.Add(checklist.Red, wholeFabric, "cabling", err.Error(), "see ethereal topo check")
		return nil
	}
	for _, fault := range r.Faults {
		c.list.Add(checklist.Red, wholeFabric, "cabling", fault.What, fault.Remedy)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Unasked)) {
		c.list.Add(checklist.Unseen, name, "cabling", r.Unasked[name], "see the lines about "+name)
	}
	confirmed := r.Count(cabling.Confirmed)
	if r.OK() {
		c.list.Add(checklist.Green, wholeFabric, "cabling", fmt.Sprintf("all %d links are as planned", confirmed), "")
	}
	if c.Frame == 0 || confirmed == 0 {
		return nil
	}
	big, err := c.checkCables(ctx, leader, c.Frame)
	if err != nil {
		c.list.Add(checklist.Red, wholeFabric, "mtu", err.Error(), "see ethereal topo check")
		return ctx.Err()
	}
	small := 0
	for i, l := range big.Links {
		if r.Links[i].State == cabling.Confirmed && l.State != cabling.Confirmed {
			small++
			c.list.Add(checklist.Red, wholeFabric, "mtu", fmt.Sprintf("%s does not carry frames of %d bytes both ways", l.Name, c.Frame), "raise the MTU of the ports at both ends")
		}
	}
	if small == 0 {
		c.list.Add(checklist.Green, wholeFabric, "mtu", fmt.Sprintf("frames of %d bytes pass", c.Frame), "")
	}
	return nil
}

func (c *checker) checkCables(ctx context.Context, leader *string, frame int) (*cabling.Report, error) {
	wait := c.Wait
	if wait == 0 {
		wait = 3 * time.Second
	}
	if leader != nil {
		return c.askCabling(ctx, *leader, url.Values{"frame": {strconv.Itoa(frame)}}, wait)
	}
	return daemon.CheckCabling(ctx, c.Daemon, daemon.CablingOptions{Wait: wait, Push: c.Push, Frame: frame})
}
