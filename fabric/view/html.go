package view

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
)

//go:embed page
var files embed.FS

// scripts are the page's, in the order in which they run.
var scripts = []string{"page/data.js", "page/draw.js", "page/chart.js", "page/main.js"}

// parts are what a page is made of, and what its policy allows.
type parts struct {
	Title, Policy string
	Style         template.CSS
	Script, Data  template.JS
}

// assemble reads the page's files. connect is what the page may ask.
func assemble(p *Page, connect string) (*parts, error) {
	var script []byte
	for _, name := range scripts {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		script = append(script, text...)
	}
	style, err := files.ReadFile("page/view.css")
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(p) // escapes <, > and &
	if err != nil {
		return nil, err
	}
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; connect-src %s; img-src data:; base-uri 'none'; form-action 'none'",
		digest(script), digest(style), connect)
	return &parts{Title: p.Title, Policy: policy, Style: template.CSS(style), Script: template.JS(script), Data: template.JS(data)}, nil //nolint:gosec // our own files, and JSON
}

// digest is a source's hash as a content security policy has it.
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
	t, err := template.ParseFS(files, "page/page.html")
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}
