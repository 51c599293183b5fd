package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

var errDrainName = errors.New("drain: name one LINK, as tor0-agg1, or SWITCH, as agg1")

// newDrainCommand makes `ethereal drain`.
func newDrainCommand() *cobra.Command {
	var (
		admin       adminFlags
		undo, force bool
		format      outputFormat
	)
	c := &cobra.Command{
		Use:   "drain LINK|SWITCH",
		Short: "Take a link or switch out of use without loss, or put it back",
		Long: `Asks a controller to take a link between switches, or an aggregation, core or spine switch, out of use while it still
works. New paths are written before old ones are removed, so no packet is lost. The command succeeds when every switch that
used the link has acknowledged its new tables, and the agents are notified. If one does not within 5 seconds, the command
names it and exits with 1; the drain is kept and written when the switch answers. A drain by which hosts would lose their
last path is refused, unless --force is given.`,
		Example: `  ethereal drain tor0-agg1 --admin-token-file token
  ethereal drain agg1 --admin-token-file token --undo`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errDrainName
			}
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			// By the flags that are on the line already. A controller that does not answer offers nothing.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			body, err := admin.call(ctx, http.MethodGet, "/links", nil)
			var names []string
			if err == nil {
				err = json.Unmarshal(body, &names)
			}
			if err != nil {
				cobra.CompErrorln(err.Error())
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{"name": {args[0]}}
			if undo {
				query.Set("undo", "true")
			}
			if force {
				query.Set("force", "true")
			}
			body, err := admin.call(c.Context(), http.MethodPost, "/drain", query)
			if err != nil {
				return err
			}
			var done struct{ Links []string }
			if err := json.Unmarshal(body, &done); err != nil {
				return failedf("the answer is not understood: %w", err)
			}
			if !format.forPeople() {
				return format.write(c.OutOrStdout(), body)
			}
			what := "drained"
			if undo {
				what = "back in use"
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", what, strings.Join(done.Links, ", "))
			return err
		},
	}
	admin.register(c)
	format.register(c)
	admin.registerToken(c)
	c.Flags().BoolVar(&undo, "undo", false, "put it back into use")
	c.Flags().BoolVar(&force, "force", false, "override a refusal; hosts may then lose their last path")
	return c
}
