package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ethereal-fabric/ethereal/fabric/view"
	"github.com/ethereal-fabric/ethereal/testbed/recording"
	"github.com/ethereal-fabric/ethereal/testbed/report"
)

// mostViewed is how many runs one page takes.
const mostViewed = 32

func (a *app) viewCommand() *cobra.Command {
	var html, listen, title string
	c := &cobra.Command{
		Use:   "view FILE...",
		Short: "Look into runs: links and queues over time, paths, failures and flips, on a page",
		Long: `Shows traces (ethereal run --trace) and results (ethereal run --json) on a page: the fabric in tiers, the use of its links and its
queues at any time, where a flow went, what failed and who answered. The page is served to a browser on this machine, under an
address that is printed and that nobody can guess, until Ctrl-C; with --html it is written as one file instead. It only reads.
Of a result without a trace there are the links' use over the whole run, and the timeline.`,
		Example: `  ethereal run testbed/scenarios/demo.yaml --schemes ethereal,ecmp --seeds 1 --trace build/demo.pftrace
  ethereal view build/demo.*healthy-all-to-all*.pftrace
  ethereal view build/demo.*healthy-all-to-all*.pftrace --html build/look.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("view: name files of ethereal run --trace or --json")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			p := &view.Page{Version: a.version, Title: title}
			for _, name := range args {
				runs, err := loadView(name)
				if err != nil {
					return err
				}
				if p.Runs = append(p.Runs, runs...); len(p.Runs) > mostViewed {
					return fmt.Errorf("view: %d runs by %s; a page shows up to %d, so name fewer files", len(p.Runs), name, mostViewed)
				}
			}
			if p.Title == "" {
				p.Title = "Ethereal: " + strings.Join(baseNames(args), ", ")
			}
			if html != "" {
				return writeView(html, p)
			}
			return a.serveView(c.Context(), listen, view.NewServer(func() (*view.Page, error) { return p, nil }, nil))
		},
	}
	f := c.Flags()
	f.StringVar(&html, "html", "", "write the page to `FILE` instead of serving it")
	f.StringVar(&listen, "listen", "127.0.0.1:0", "serve at `ADDRESS`, a loopback one; port 0 is any that is free")
	f.StringVar(&title, "title", "", "the page's `TITLE`; the files' names when left out")
	return c
}

func baseNames(paths []string) []string {
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(p))
	}
	return names
}

// loadView reads a trace, or results.
func loadView(name string) ([]*view.Run, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	var head [2]byte
	n, _ := io.ReadFull(file, head[:]) // of a shorter file what there is
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	if recording.Is(head[:n]) {
		r, err := recording.Read(file)
		if err != nil {
			return nil, fmt.Errorf("view: %s: %w", name, err)
		}
		return []*view.Run{r.View()}, nil
	}
	results, err := report.Decode(file, name)
	if err != nil {
		return nil, err
	}
	var runs []*view.Run
	for _, result := range results {
		r, err := recording.FromResult(result)
		if err != nil {
			return nil, fmt.Errorf("view: %s: %v: %w", name, result, err)
		}
		runs = append(runs, r.View())
	}
	return runs, nil
}

func writeView(name string, p *view.Page) (err error) {
	file, err := create("--html", name)
	if err != nil {
		return err
	}
	defer closeFile(file, &err)
	return view.HTML(file, p)
}

// serveView serves a page until ctx ends.
func (a *app) serveView(ctx context.Context, listen string, s *view.Server) error {
	l, err := view.Listen(listen, false)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 1 << 14}
	fmt.Fprintf(a.stdout, "http://%s%s\n", l.Addr(), s.Path())
	fmt.Fprintln(a.stderr, "open it in a browser on this machine; Ctrl-C ends")
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // it ends anyway
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%w: view: %w", errRun, err)
	}
	return nil
}
