package preflight

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/cabling"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

func (c *checker) admin() *adminhttp.Client { return &adminhttp.Client{TLS: c.TLS, Token: c.Token} }

// controllers checks the running controllers, and returns the address of a primary one; nil: none was named.
func (c *checker) controllers(ctx context.Context) *string {
	if len(c.Controllers) == 0 {
		return nil
	}
	leader := ""
	for _, addr := range c.Controllers {
		var s struct {
			Ready, Started bool
			Switches       []struct {
				Name, Error string
				Primary     bool
			}
			Agents []struct{ Behind uint64 }
		}
		if err := c.admin().Get(ctx, addr, "/status", c.limit(), &s); err != nil {
			c.list.Add(checklist.Red, addr, "controller", err.Error(), reachRemedy(err, addr, "the controller", "--admin, which is its --listen-admin"))
			continue
		}
		primary := 0
		for _, x := range s.Switches {
			if x.Primary {
				primary++
			}
		}
		seen := fmt.Sprintf("primary of %d of %d switches, %d agents", primary, len(s.Switches), len(s.Agents))
		if primary > 0 && leader == "" {
			leader = addr
		}
		if !s.Ready {
			c.list.Add(checklist.Red, addr, "controller", "not ready; "+seen, "see ethereal status --admin "+addr)
			continue
		}
		c.list.Add(checklist.Green, addr, "controller", "ready; "+seen, "")
	}
	if len(c.Controllers) == 1 {
		c.list.Add(checklist.Green, wholeFabric, "standby", "only one controller; if it fails, switches go on forwarding, but tables are not repaired", "")
	}
	return &leader
}

// agent checks a host's agent.
func (c *checker) agent(ctx context.Context, host fabric.NodeID) {
	name, addr := c.f.Name(host), c.Agents[host]
	if addr == "" {
		c.list.Add(checklist.Unseen, name, "agent", "the targets file has no admin address of this agent", "add to the targets file: hosts: {"+name+": {admin: HOST:PORT}}; on the host, run ethereal host preflight")
		return
	}
	var s struct {
		Host        string
		Controllers []struct {
			Addr string
			Open bool
		}
	}
	if err := c.admin().Get(ctx, addr, "/status", c.limit(), &s); err != nil {
		c.list.Add(checklist.Red, name, "agent", err.Error(), reachRemedy(err, addr, "its agent (ethereal host agent --listen-admin)", "hosts in the targets file"))
		return
	}
	if s.Host != name {
		c.list.Add(checklist.Red, name, "agent", addr+" is the agent of "+s.Host, "correct --host of the agent, or hosts in the targets file")
		return
	}
	connected := 0
	for _, x := range s.Controllers {
		if x.Open {
			connected++
		}
	}
	switch {
	case len(s.Controllers) == 0:
		c.list.Add(checklist.Yellow, name, "agent", addr+" answers, but follows no controller", "start the agent with --controller, once for each controller")
	case connected == 0 && len(c.Controllers) > 0:
		c.list.Add(checklist.Red, name, "agent", addr+" answers, but reaches none of its controllers", "compare --controller of the agent with the controllers' --listen-agents; check its certificates")
	default:
		c.list.Add(checklist.Green, name, "agent", fmt.Sprintf("%s answers, connected to %d of %d controllers", addr, connected, len(s.Controllers)), "")
	}
}

// askCabling makes a controller check the cables.
func (c *checker) askCabling(ctx context.Context, addr string, query url.Values, wait time.Duration) (*cabling.Report, error) {
	r := new(cabling.Report)
	query.Set("wait", wait.String())
	if err := c.admin().Ask(ctx, http.MethodPost, addr, "/cabling", query, wait+c.limit(), r); err != nil {
		return nil, err
	}
	if len(r.Links) != c.f.Links() {
		return nil, fmt.Errorf("%s reports %d links, and the fabric has %d: give both the same --fabric", addr, len(r.Links), c.f.Links())
	}
	return r, nil
}
