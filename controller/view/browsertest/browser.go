// Package browsertest opens pages in a browser, for tests.
package browsertest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// Browser is a headless Chromium with one page.
type Browser struct {
	context.Context // for chromedp.Run

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// Open starts a browser, or skips the test. The browser ends with the test, or after limit.
func Open(t testing.TB, limit time.Duration) *Browser {
	t.Helper()
	path := systemtest.Program(t, "chromium", "", "apt-get install chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // it logs events that it does not know
	t.Cleanup(cancel)
	// The browser closes before the allocator's folder is removed.
	t.Cleanup(func() { chromedp.Cancel(ctx) }) //nolint:errcheck // it may have ended
	b := &Browser{Context: ctx}
	chromedp.ListenTarget(ctx, b.onEvent)
	if err := chromedp.Run(ctx, log.Enable(), network.Enable()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *Browser) onEvent(e any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, e.Entry.Text)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	}
}

// Check fails the test for the browser's errors, and for requests to addresses without one of the prefixes in own.
func (b *Browser) Check(t testing.TB, own ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		t.Errorf("the browser says: %s", c)
	}
next:
	for _, r := range b.requests {
		for _, o := range append(own, "data:", "about:") {
			if strings.HasPrefix(r, o) {
				continue next
			}
		}
		t.Errorf("the page asks for %s", r)
	}
}
