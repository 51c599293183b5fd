package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/loglimit"
)

// certFiles name the files, and the flags that named them.
type certFiles struct {
	ca, cert, key    string // "": no such file
	caFlag, ownFlags string
	expired          bool // is no error
}

// fileStamps identify the content of the files without reading them; nil where there is no file.
type fileStamps [3]fs.FileInfo

func (p *certFiles) stamps() (s fileStamps, err error) {
	for i, name := range []string{p.ca, p.cert, p.key} {
		if name == "" {
			continue
		}
		if s[i], err = os.Stat(name); err != nil {
			return s, fmt.Errorf("certificates: %w", err)
		}
	}
	return s, nil
}

func (s fileStamps) equal(other fileStamps) bool {
	for i, a := range s {
		b := other[i]
		if (a == nil) != (b == nil) {
			return false
		}
		if a != nil && (!os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime())) {
			return false
		}
	}
	return true
}

// open reads the files for the first time.
func (p *certFiles) open() (*Files, error) {
	at, err := p.stamps()
	if err != nil {
		at = fileStamps{} // reading says which flag it is
	}
	t, err := p.load()
	if err != nil {
		return nil, err
	}
	t.paths, t.read, t.checked = p, at, time.Now()
	return t, nil
}

// load reads the files' present content.
func (p *certFiles) load() (*Files, error) {
	t := &Files{}
	if p.ca != "" {
		text, err := os.ReadFile(p.ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.caFlag, err)
		}
		t.Roots = x509.NewCertPool()
		if !t.Roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s holds no PEM certificate", p.caFlag, p.ca)
		}
		for rest := text; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if c, err := x509.ParseCertificate(block.Bytes); err == nil {
				t.Authorities = append(t.Authorities, c)
			}
		}
		if latest := t.Authorities[0].NotAfter; !p.expired && allExpired(t.Authorities) {
			return nil, fmt.Errorf("%s: %s expired at %s; issue a new authority, and certificates by it (scripts/lab-ca)", p.caFlag, p.ca, stamp(latest))
		}
	}
	if p.cert == "" {
		return t, nil
	}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.ownFlags, err)
	}
	if !p.expired && !time.Now().Before(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: %s expired at %s; issue a new one (scripts/lab-ca)", p.ownFlags, p.cert, stamp(pair.Leaf.NotAfter))
	}
	t.Own = []tls.Certificate{pair}
	return t, nil
}

func allExpired(cs []*x509.Certificate) bool {
	for _, c := range cs {
		if time.Now().Before(c.NotAfter) {
			return false
		}
	}
	return true
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// checkInterval is the minimum interval between two looks at the files.
const checkInterval = time.Second

// current returns the content to use. If the files have changed it is the new one, unless that cannot be used: for
// example while the certificate is replaced and its key not yet.
func (t *Files) current() *Files {
	use, _ := t.reload(false)
	return use
}

// reload returns the files to use, and an error if their present content is not used. atOnce looks at the files even if
// the last look was just now.
func (t *Files) reload(atOnce bool) (*Files, error) {
	if t.paths == nil {
		return t, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if atOnce || time.Since(t.checked) >= checkInterval {
		t.checked = time.Now()
		t.failed = t.renew()
	}
	if t.renewed != nil {
		return t.renewed, t.failed
	}
	return t, t.failed
}

func (t *Files) renew() error {
	at, err := t.paths.stamps()
	if err != nil || at.equal(t.read) {
		return err
	}
	next, err := t.paths.load()
	if err != nil {
		return err
	}
	t.renewed, t.read = next, at
	return nil
}

// Expiry returns when the own certificate expires, and when the first authority's does; zero: there is none.
func (t *Files) Expiry() (own, authority time.Time) {
	now := t.current()
	for _, c := range now.Own {
		if c.Leaf != nil && (own.IsZero() || c.Leaf.NotAfter.Before(own)) {
			own = c.Leaf.NotAfter
		}
	}
	for _, c := range now.Authorities {
		if authority.IsZero() || c.NotAfter.Before(authority) {
			authority = c.NotAfter
		}
	}
	return own, authority
}

const (
	watchInterval = 10 * time.Second
	// warnBefore is how long before its expiry a certificate is warned of, once in warnInterval.
	warnBefore   = 30 * 24 * time.Hour
	warnInterval = 24 * time.Hour
)

// Watch returns a function that logs, until its context ends, when the files' content is renewed, cannot be used, or
// will expire within 30 days. SIGHUP makes it look at the files at once. From the call of Watch on SIGHUP does not end
// the process, with or without files: call it before the process serves.
func (t *Files) Watch(log *slog.Logger) (run func(context.Context) error) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	return func(ctx context.Context) error {
		defer signal.Stop(hangup)
		return t.watch(ctx, log, hangup)
	}
}

func (t *Files) watch(ctx context.Context, log *slog.Logger, hangup <-chan os.Signal) error {
	if t.paths == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	unused, ownEnds, authorityEnds := loglimit.New(log, time.Minute), loglimit.New(log, warnInterval), loglimit.New(log, warnInterval)
	last, failing := t.current(), false
	for {
		use, err := t.reload(true)
		own, authority := t.Expiry()
		switch {
		case use != last:
			log.Info("certificates were renewed", "expires", own)
			last = use
		case err != nil && failing: // twice: not only while files are being replaced
			unused.Warn("the files' certificates are not used; the earlier ones are", "err", err)
		}
		failing = err != nil
		warn(ownEnds, t.paths.cert, own)
		warn(authorityEnds, t.paths.ca, authority)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hangup:
		case <-tick.C:
		}
	}
}

// warn warns of a certificate that expires within 30 days.
func warn(l *loglimit.Limiter, file string, end time.Time) {
	if left := time.Until(end); !end.IsZero() && left < warnBefore {
		l.Warn("a certificate expires: renew it and replace the file, which is read again", "file", file, "expires", stamp(end),
			"days", int(left/(24*time.Hour)))
	}
}
