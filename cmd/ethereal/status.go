package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/controller/observe"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
)

// adminFlags are the flags with a controller's admin address and token.
type adminFlags struct {
	addr, tokenFile string
	tls             tlsFlags
}

// defaultAdmin is where a controller serves its status.
const defaultAdmin = "127.0.0.1:9560"

func (a *adminFlags) registerAddr(c *cobra.Command) {
	c.Flags().StringVar(&a.addr, "admin", "", "ask the controller whose --listen-admin is `ADDR`, HOST:PORT or unix:PATH (default: that of the fabric that is up on this machine, else "+defaultAdmin+")")
}

func (a *adminFlags) registerToken(c *cobra.Command) {
	c.Flags().StringVar(&a.tokenFile, "admin-token-file", "", "`FILE` with the controller's token")
}

func (a *adminFlags) register(c *cobra.Command) {
	a.registerAddr(c)
	a.tls.registerClient(c)
}

// ownerTimeout is for how long a controller may take to answer: a drain ends when the tables are written.
const ownerTimeout = time.Minute

// call sends a request to the controller and returns its answer.
func (a *adminFlags) call(ctx context.Context, method, path string, query url.Values) (body json.RawMessage, err error) {
	if err := a.fillFromDeployment(); err != nil {
		return nil, err
	}
	files, err := a.tls.read()
	if err != nil {
		return nil, err
	}
	c := adminhttp.Client{TLS: files.ClientConfig(a.tls.name)}
	if c.Token, err = readToken(a.tokenFile); err != nil {
		return nil, err
	}
	err = c.Ask(ctx, method, a.addr, path, query, ownerTimeout, &body)
	if refused, ok := errors.AsType[*adminhttp.Refusal](err); ok {
		return nil, failedf("the controller says: %w", refused)
	}
	if err != nil {
		return nil, a.unreachableError(err, c.TLS != nil)
	}
	return body, nil
}

// unreachableError returns an error that names the process that should have listened, and the remedy.
func (a *adminFlags) unreachableError(err error, overTLS bool) error {
	remedy := "start it, or name its --listen-admin with --admin"
	switch {
	case !overTLS && strings.Contains(err.Error(), "malformed HTTP response"):
		remedy = "it speaks TLS, or gRPC if this is the agents' port: give --tls-ca, --tls-cert and --tls-key, or its --listen-admin port"
	case overTLS && strings.Contains(err.Error(), "server gave HTTP response"):
		remedy = "it speaks no TLS: leave --tls-ca out"
	case overTLS:
		remedy += "; its certificate must name this address and come from an authority in --tls-ca, and ours from one that it knows"
	}
	return failedf("no ethereal controller answers at %s: %w; %s", a.addr, err, remedy)
}

// newStatusCommand makes `ethereal status`.
func newStatusCommand() *cobra.Command {
	var (
		admin  adminFlags
		format outputFormat
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "Show a controller's switches, links and agents",
		Example: `  ethereal status
  ethereal status -o json | jq '.switches[] | select(.synced | not)'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			body, err := admin.call(c.Context(), http.MethodGet, "/status", nil)
			if err != nil {
				return err
			}
			if !format.forPeople() {
				return format.write(c.OutOrStdout(), body)
			}
			var s statusView
			if err := json.Unmarshal(body, &s); err != nil {
				return failedf("the answer is not a status: %w", err)
			}
			return s.print(c.OutOrStdout())
		},
	}
	admin.register(c)
	format.register(c)
	return c
}

// statusView is the part of a daemon.Status that is printed.
type statusView struct {
	Instance string
	Since    time.Time
	Ready    bool
	Started  bool
	Epoch    uint64
	Last     daemon.Convergence `json:"last_convergence"`
	Links    int
	Switches []struct {
		Name, Phase, Ports, Verdict, Error string
		PortError                          string   `json:"ports_error"`
		NeverSeen                          []string `json:"ports_never_seen"`
		Primary, Synced                    bool
		Unfit                              string
		Entries                            int
		Drops                              []observe.Drop
		DropsError                         string `json:"drops_error"`
	}
	NotUp   []daemon.LinkStatus `json:"links_not_up"`
	Loads   *observe.LoadStatus
	Paths   []observe.PathStatus
	Largest []observe.FlowStatus
	Agents  []struct {
		Host   uint32
		Addr   string
		Behind uint64
	}
}

func (s *statusView) print(out io.Writer) error {
	state, muted := "ready", []string{}
	for _, x := range s.Switches {
		if x.Ports == "none" {
			muted = append(muted, x.Name)
		}
	}
	switch {
	case !s.Started:
		state = "waiting for port states"
	case !s.Ready:
		state = "not ready"
	}
	fmt.Fprintf(out, "controller %s, %s, since %s; links changed %d times\n", s.Instance, state, s.Since.Format(time.RFC3339), s.Epoch)
	if !s.Last.Trigger.IsZero() {
		missed := ""
		if s.Last.Missed > 0 {
			missed = fmt.Sprintf("; %d writes were not acknowledged", s.Last.Missed)
		}
		fmt.Fprintf(out, "last change: %d updates, %v after the first report of it%s\n", s.Last.Updates, s.Last.Took, missed)
	}
	if len(muted) > 0 {
		fmt.Fprintf(out, "ports known from their other ends only (gnmi: none): %s\n", strings.Join(muted, ", "))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SWITCH\tROLE\tPHASE\tTABLES\tENTRIES\tPORTS\tVERDICT\tERROR")
	for _, x := range s.Switches {
		role, tables := "standby", "unknown"
		if x.Primary {
			role = "primary"
		}
		if x.Synced {
			tables = "synced"
		}
		if len(x.NeverSeen) > 0 {
			x.PortError += " never seen over gNMI: " + strings.Join(x.NeverSeen, ", ") + "; name the interfaces in the targets file or start the switch with --ethernet-names"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", x.Name, role, x.Phase, tables, x.Entries, x.Ports, x.Verdict,
			strings.Join(strings.Fields(x.Error+" "+x.PortError+" "+x.Unfit), " "))
	}
	if len(s.NotUp) > 0 {
		fmt.Fprintln(w, "LINK\tSTATE\tEPOCH")
	}
	for _, l := range s.NotUp {
		var why []string
		for _, r := range []struct {
			is   bool
			name string
		}{
			{l.UnseenA, "never reported at the lower end"}, {l.UnseenB, "never reported at the upper end"},
			{l.DownA, "down at the lower end"}, {l.DownB, "down at the upper end"}, {l.Drained, "drained"}, {l.Flapping, "flapping"}, {l.Suspected, "suspected"}, {l.Confirmed, "loses probes"},
		} {
			if r.is {
				why = append(why, r.name)
			}
		}
		if l.Carries > 0 {
			why = append(why, fmt.Sprintf("carries %v", l.Carries))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\n", l.Name, strings.Join(why, ", "), l.Epoch)
	}
	s.printDrops(w)
	s.printLoads(w)
	s.printPaths(w)
	s.printLargest(w)
	if err := w.Flush(); err != nil {
		return err
	}
	behind := 0
	for _, a := range s.Agents {
		if a.Behind > 0 {
			behind++
		}
	}
	_, err := fmt.Fprintf(out, "%d of %d links not up, %d agents, %d of them behind\n", len(s.NotUp), s.Links, len(s.Agents), behind)
	return err
}

// dropsShownFor is how long a reason is shown after there were more drops.
const dropsShownFor = time.Minute

// printDrops prints the reasons for which switches drop packets, marks growing counts, and lists switches that did not
// answer.
func (s *statusView) printDrops(w io.Writer) {
	begun := false
	line := func(columns ...any) {
		if !begun {
			begun = true
			fmt.Fprintln(w, "DROPS AT\tREASON\tTOTAL\tNEW\tREMEDY")
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%s\n", columns...)
	}
	for _, x := range s.Switches {
		if x.DropsError != "" {
			line(x.Name, "unknown", "", "", x.DropsError+"; compare admin in the targets file with the switch's --listen-admin")
		}
		for _, d := range x.Drops {
			if d.Grew != nil && time.Since(*d.Grew) < dropsShownFor {
				line(x.Name, d.Reason, d.Packets, d.New, d.Remedy)
			}
		}
	}
}

// printLoads writes how evenly links are used, where the controller reads counters.
func (s *statusView) printLoads(w io.Writer) {
	if s.Loads == nil {
		return
	}
	rate := func(bytes float64) string { return fabric.Rate(8 * bytes).String() }
	fmt.Fprintln(w, "LINKS\tMEAN\tBUSIEST\tIMBALANCE\tTHAT IS\tHOT\tCOLD")
	for _, t := range s.Loads.Tiers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\t%s\t%s\n", t.Tier, rate(t.Mean), rate(t.Max), t.Imbalance, t.Busiest, firstNames(t.Hot), firstNames(t.Cold))
	}
	if len(s.Loads.Unread) > 0 {
		fmt.Fprintf(w, "counters not read recently, links shown as idle: %s\n", firstNames(s.Loads.Unread))
	}
}

// printPaths prints probed paths.
func (s *statusView) printPaths(w io.Writer) {
	if len(s.Paths) > 0 {
		fmt.Fprintln(w, "PROBED, FOR SUSPICION\tLABEL\tLOST\tTHERE AND BACK\tLEAST\tLAST ANSWER")
	}
	for i := range s.Paths {
		p := &s.Paths[i]
		trip, least := "", ""
		if p.Trip > 0 {
			trip, least = p.Trip.String(), p.Least.String()
		}
		fmt.Fprintf(w, "%s\t%d\t%d of %d\t%s\t%s\t%v ago\n", strings.Join(p.Via, " "), p.Label, p.Lost, p.Sent, trip, least,
			time.Since(p.Last).Round(time.Second))
	}
}

// maxLargestShown is how many pairs of hosts are shown.
const maxLargestShown = 8

// printLargest writes which hosts send most to which.
func (s *statusView) printLargest(w io.Writer) {
	if len(s.Largest) > 0 {
		fmt.Fprintln(w, "MOST IS SENT BY\tTO\tMB/S")
	}
	for _, x := range s.Largest[:min(maxLargestShown, len(s.Largest))] {
		fmt.Fprintf(w, "%s\t%s\t%.3g\n", x.From, x.To, x.Rate/1e6)
	}
}

// maxNamesShown is the number of names that a table shows.
const maxNamesShown = 3

// firstNames returns the first few names as text, and the number of the others.
func firstNames(names []string) string {
	if more := len(names) - maxNamesShown; more > 0 {
		return strings.Join(names[:maxNamesShown], " ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, " ")
}
