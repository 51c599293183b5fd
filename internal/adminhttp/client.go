// Package adminhttp is the client of the HTTP servers by which controllers, agents and switches report their
// status.
package adminhttp

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxAnswer is the longest answer read, in bytes.
const maxAnswer = 64 << 20

// Refusal is an HTTP answer with a status other than 200, as an error.
type Refusal struct {
	Code int
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// Client sends requests to the HTTP servers for operators. Its zero value uses no TLS and no token.
type Client struct {
	TLS   *tls.Config // TLS configuration; nil: without TLS
	Token string      // secret for requests that change something
}

// Get asks an admin server, at HOST:PORT or unix:PATH, and decodes its JSON.
func (c *Client) Get(ctx context.Context, addr, path string, timeout time.Duration, into any) error {
	return c.Ask(ctx, http.MethodGet, addr, path, nil, timeout, into)
}

// Ask sends a request with a method and a query to an admin server, and decodes the JSON answer. An answer other than
// 200 is a [Refusal].
func (c *Client) Ask(ctx context.Context, method, addr, path string, query url.Values, timeout time.Duration, into any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	u := url.URL{Scheme: "http", Host: addr, Path: path, RawQuery: query.Encode()}
	transport := &http.Transport{TLSClientConfig: c.TLS}
	defer transport.CloseIdleConnections()
	if socket, ok := strings.CutPrefix(addr, "unix:"); ok {
		u.Host = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(socket, "//"))
		}
	}
	if c.TLS != nil {
		u.Scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), nil)
	if err != nil {
		return err
	}
	if method != http.MethodGet {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	r, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return err
	}
	defer r.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case r.StatusCode != http.StatusOK:
		return &Refusal{r.StatusCode, fmt.Sprintf("%s: %s", r.Status, strings.TrimSpace(string(body[:min(len(body), 200)])))}
	}
	return json.Unmarshal(body, into)
}
