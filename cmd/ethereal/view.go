package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/controller/view"
	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
)

// maxViewed is how many runs one page takes.
const maxViewed = 32

func (a *app) viewCommand() *cobra.Command {
	var html, listen, title, fabricFile string
	c := &cobra.Command{
		Use:   "view FILE...",
		Short: "Show a run on a page: links, queues, paths and failures over time",
		Long: `Shows traces (ethereal run --trace), results (--out), records (--record), and event logs of controllers and hosts on a
page: the fabric in tiers, loads and queues of its links at any time, paths of flows, failures and reactions. The page is
served read-only to a browser on this machine, at a secret address that is printed, until Ctrl-C; with --html it is written
to one file instead. Without a trace, a result has the links' load over the whole run and the timeline, a record the
timeline, a controller's log the timeline and (while the page is served) the tables of a switch at any time, a host's log
its messages, its pieces with their paths, and what it received and did.`,
		Example: `  ethereal run testbed/scenarios/demo.yaml --schemes ethereal,ecmp --seeds 1 --trace build/demo.pftrace
  ethereal view build/demo.*healthy-all-to-all*.pftrace
  ethereal view build/demo.*healthy-all-to-all*.pftrace --html build/look.html
  ethereal view --fabric fabric.yaml controller.jsonl h0.log`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("view: name files of ethereal run --trace, --out or --record, or event logs")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p := &view.Page{Version: a.version, Title: title}
			load := &viewLoader{ctx: c.Context()}
			if err := load.readFabric(fabricFile); err != nil {
				return err
			}
			for _, name := range args {
				if err := load.loadFile(name); err != nil {
					return err
				}
				if p.Runs = load.runs; len(p.Runs) > maxViewed {
					return fmt.Errorf("view: %d runs by %s; a page shows up to %d, so name fewer files", len(p.Runs), name, maxViewed)
				}
			}
			if p.Title == "" {
				p.Title = "Ethereal: " + strings.Join(baseNames(args), ", ")
			}
			if html != "" {
				return writeView(c.Context(), html, p)
			}
			return a.serveView(c.Context(), listen, load.server(p))
		},
	}
	f := c.Flags()
	f.StringVar(&html, "html", "", "write the page, one self-contained file, to `FILE`; the page is then not served")
	f.StringVar(&listen, "listen-view", "127.0.0.1:0", "serve a page at `ADDR`, HOST:PORT, under a secret path that is printed; only on the loopback; port 0 stands for any free port")
	f.StringVar(&fabricFile, "fabric", "", "read the fabric from `FILE`, as `ethereal topo` prints it; needed for logs and records that do not contain their fabric")
	f.StringVar(&title, "title", "", "give the page the title `TEXT` (default: the names of what it shows)")
	return c
}

func baseNames(paths []string) []string {
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

func writeView(ctx context.Context, name string, p *view.Page) (err error) {
	file, err := createOutput(ctx, "--html", name)
	if err != nil {
		return err
	}
	defer closeFile(file, &err)
	if err = view.HTML(file, p); err != nil {
		file.Fail(err)
	}
	return err
}

// serveView serves a page until ctx ends.
func (a *app) serveView(ctx context.Context, listen string, s *viewhttp.Server) error {
	l, err := viewhttp.Listen(listen, false)
	if err != nil {
		return fmt.Errorf("--listen-view: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
	fmt.Fprintf(a.stdout, "http://%s%s\n", l.Addr(), s.Path())
	fmt.Fprintln(a.stderr, "open it in a browser on this machine; Ctrl-C ends")
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // it ends anyway
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return failedf("view: %w", err)
	}
	return nil
}
