// Package browsertest opens pages in a browser, for tests.
package browsertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// Browser is a headless Chromium with one page. It is driven by the DevTools protocol over two pipes: JSON messages,
// each ended by a zero byte.
type Browser struct {
	ctx     context.Context
	cmd     *exec.Cmd
	in      *os.File
	session string // of the page; "": the browser's

	mu         sync.Mutex
	calls      int
	answers    map[int]chan message
	ended      error // why the browser says nothing any more
	complaints []string
	requests   []string
}

// message is a call, its answer or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// object is a call's parameters.
type object map[string]any

// flags are the browser's command-line flags. They disable services that tests do not need, and the throttling of pages
// in the background.
var flags = strings.Fields(`--headless --remote-debugging-pipe --no-sandbox --disable-gpu --disable-quic --no-first-run
	--disable-component-update --disable-background-networking --disable-background-timer-throttling --disable-dev-shm-usage
	--disable-backgrounding-occluded-windows --disable-renderer-backgrounding --disable-extensions --disable-sync
	--disable-popup-blocking --enable-precise-memory-info --hide-scrollbars --mute-audio about:blank`)

// Open starts a browser, or skips the test. The browser ends with the test, or after limit.
func Open(t testing.TB, limit time.Duration) *Browser {
	t.Helper()
	path := systemtest.Program(t, "chromium", "", "apt-get install chromium")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{ctx: ctx, in: in, answers: map[int]chan message{}}
	b.cmd = exec.CommandContext(ctx, path, append(flags, "--user-data-dir="+t.TempDir())...)
	b.cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4
	if err := errors.Join(b.cmd.Start(), theirIn.Close(), theirOut.Close()); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	t.Cleanup(func() {
		b.call("", "Browser.close", nil, nil) //nolint:errcheck // it may have ended
		in.Close()                            //nolint:errcheck // likewise
		b.cmd.Wait()                          //nolint:errcheck // likewise
		<-read
		out.Close() //nolint:errcheck // it was read to its end
		cancel()
	})
	var page struct{ TargetID, SessionID string }
	err = b.call("", "Target.createTarget", object{"url": "about:blank"}, &page)
	err = errors.Join(err, b.call("", "Target.attachToTarget", object{"targetId": page.TargetID, "flatten": true}, &page))
	b.session = page.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		err = errors.Join(err, b.call(b.session, domain+".enable", nil, nil))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// PID returns the process ID of the browser, whose children are its tabs.
func (b *Browser) PID() int { return b.cmd.Process.Pid }

// call carries out a method of the protocol and decodes its result.
func (b *Browser) call(session, method string, params object, result any) error {
	fail := func(err error) error { return fmt.Errorf("browser: %s: %w", method, err) }
	answer := make(chan message, 1)
	b.mu.Lock()
	b.calls++
	m := message{ID: b.calls, Session: session, Method: method}
	b.answers[m.ID] = answer
	err := b.ended
	if err == nil && params != nil {
		m.Params, err = json.Marshal(params)
	}
	if err == nil {
		var text []byte
		if text, err = json.Marshal(m); err == nil {
			_, err = b.in.Write(append(text, 0))
		}
	}
	b.mu.Unlock()
	if err != nil {
		return fail(err)
	}
	select {
	case m = <-answer:
	case <-b.ctx.Done():
		return fail(b.ctx.Err())
	}
	switch {
	case m.Error != nil:
		return fail(errors.New(m.Error.Message))
	case result == nil:
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// read takes answers and events until the browser ends.
func (b *Browser) read(out *os.File) {
	var err error
	for r := bufio.NewReader(out); err == nil; {
		var text []byte
		if text, err = r.ReadBytes(0); err == nil {
			var m message
			if err = json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &m); err == nil {
				b.take(m)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = err
	for _, answer := range b.answers {
		answer <- message{Error: &struct {
			Message string `json:"message"`
		}{"the browser has ended"}}
	}
}

func (b *Browser) take(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.ID != 0 {
		if answer := b.answers[m.ID]; answer != nil {
			answer <- m
		}
		delete(b.answers, m.ID)
		return
	}
	var e struct {
		ExceptionDetails exception
		Entry            struct{ Text string }
		Request          struct{ URL string }
	}
	if json.Unmarshal(m.Params, &e) != nil {
		return // no event that is looked at
	}
	switch m.Method {
	case "Runtime.exceptionThrown":
		b.complaints = append(b.complaints, e.ExceptionDetails.Error())
	case "Log.entryAdded":
		b.complaints = append(b.complaints, e.Entry.Text)
	case "Network.requestWillBeSent":
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
