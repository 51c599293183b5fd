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

// parts are the parts of a page, and its policy.
type parts struct {
	Title, Policy string
	Style         template.CSS
	Script, Data  template.JS
	page          *template.Template
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

// assemble makes a page. connect is the source that its policy allows for requests.
func assemble(p *Page, connect string) (*parts, error) {
	s, err := load()
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(p) // escapes <, > and &
	if err != nil {
		return nil, err
	}
	return &parts{
		page: s.page, Title: p.Title, Policy: s.policy + "; connect-src " + connect,
		Style: template.CSS(s.style), Script: template.JS(s.script), Data: template.JS(data), //nolint:gosec // our own files, and JSON
	}, nil
}

// digest returns a source's hash for a content security policy.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// HTML writes the page as one file, which loads nothing.
func HTML(w io.Writer, p *Page) error {
	parts, err := assemble(p, "'none'")
	if err != nil {
		return err
	}
	return parts.write(w)
}

func (p *parts) write(w io.Writer) error {
	return p.page.Execute(w, p)
}
