package view

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"sync"
)

//go:embed page
var files embed.FS

// scripts are the page's scripts, in the order in which they run.
var scripts = []string{"page/data.js", "page/draw.js", "page/chart.js", "page/main.js"}

// pageParts are the parts of an HTML page, and its content security policy.
type pageParts struct {
	Title, Policy string
	Style         template.CSS
	Script, Data  template.JS
}

// shared are the parts that all pages have in common.
type shared struct {
	page          *template.Template
	style, script []byte
	policy        string
}

// load reads the page's files, once.
var load = sync.OnceValues(func() (*shared, error) {
	s := &shared{}
	for _, name := range scripts {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s.script = append(s.script, text...)
	}
	var err error
	if s.style, err = files.ReadFile("page/view.css"); err != nil {
		return nil, err
	}
	s.policy = fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		digest(s.script), digest(s.style))
	s.page, err = template.ParseFS(files, "page/page.html")
	return s, err
})

// HTML writes the page as one file, which loads nothing.
func HTML(w io.Writer, p *Page) error {
	_, err := write(w, p, "'none'")
	return err
}

// ServedHTML writes the page for a server, which the page may contact, and returns the content security policy that
// the server sends with it.
func ServedHTML(w io.Writer, p *Page) (policy string, err error) { return write(w, p, "'self'") }

// write writes a page and returns its policy. connect is the source that the policy allows for requests.
func write(w io.Writer, p *Page, connect string) (policy string, err error) {
	s, err := load()
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(p) // escapes <, > and &
	if err != nil {
		return "", err
	}
	policy = s.policy + "; connect-src " + connect
	return policy, s.page.Execute(w, &pageParts{
		Title: p.Title, Policy: policy,
		Style: template.CSS(s.style), Script: template.JS(s.script), Data: template.JS(data), //nolint:gosec // our own files, and JSON
	})
}

// digest returns a source's hash for a content security policy.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
