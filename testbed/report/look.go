package report

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"slices"
	"strings"
)

// schemes are the load balancers with a fixed chart style, independent of the other results.
var schemes = [...]string{
	"ethereal", "ecmp", "mp-rdma", "spray", "reps", "drb", "hopper", "mrc", "switch-spray", "switch-spray-random", "jsq",
	"flowlet", "ofan",
}

// palette are the colours of schemes, by the index in look; they are readable on white and on dark grey. The last
// three are for unknown schemes.
var palette = [...]string{
	"#2f86c8", "#e8883a", "#b05cc0", "#3fa36c", "#d04a6e", "#c2a020", "#20a0a8", "#8a6fd1", "#7aa93c", "#a8763e", "#e06fb0", "#5f7fa8", "#b5483a",
	"#7d8794", "#4c9a8f", "#98894f",
}

// shapes are the marks of schemes, so that nobody needs to distinguish colours: each filled, then hollow.
var shapes = [...]string{
	"M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0Z",                           // circle
	"M-4.4 -4.4H4.4V4.4H-4.4Z",                                     // square
	"M0 -5.4L5 3.6H-5Z",                                            // triangle
	"M0 -5.8L5.8 0L0 5.8L-5.8 0Z",                                  // diamond
	"M0 5.4L5 -3.6H-5Z",                                            // triangle, point down
	"M-1.7 -5.2H1.7V-1.7H5.2V1.7H1.7V5.2H-1.7V1.7H-5.2V-1.7H-1.7Z", // plus
	"M-5.4 0L-2.7 -4.7H2.7L5.4 0L2.7 4.7H-2.7Z",                    // hexagon
	"M0 -2.6L2.6 -5.2L5.2 -2.6L2.6 0L5.2 2.6L2.6 5.2L0 2.6L-2.6 5.2L-5.2 2.6L-2.6 0L-5.2 -2.6L-2.6 -5.2Z", // cross
}

// schemeLook is a scheme's colour, mark and dashes in charts. Parameters change only the dashes of lines.
type schemeLook struct {
	hue    int // of the palette
	shape  string
	hollow bool
}

// baseName returns a scheme without its parameters.
func baseName(scheme string) string {
	base, _, _ := strings.Cut(scheme, "(")
	return base
}

// lookOf returns the chart style of a scheme, by its name in results.
func lookOf(scheme string) schemeLook {
	base := baseName(scheme)
	i := slices.Index(schemes[:], base)
	if i < 0 {
		h := fnv.New32a()
		h.Write([]byte(base))
		i = len(schemes) + int(h.Sum32()%uint32(len(palette)-len(schemes)))
	}
	return schemeLook{hue: i, shape: shapes[i%len(shapes)], hollow: i >= len(shapes)}
}

func (l schemeLook) color() string { return palette[l.hue] }

// class returns the CSS class with the scheme's colour.
func (l schemeLook) class() string { return fmt.Sprintf("s%d", l.hue) }

// mark draws the scheme's shape at a position in an SVG picture.
func (l schemeLook) mark(x, y, scale float64, color, title string) string {
	paint := `fill="` + color + `"`
	if l.hollow {
		paint = `fill="none" stroke-width="2" stroke="` + color + `"`
	}
	if title != "" {
		title = "<title>" + template.HTMLEscapeString(title) + "</title>"
	}
	return fmt.Sprintf(`<path d="%s" %s transform="translate(%s %s) scale(%s)">%s</path>`, l.shape, paint, coordinate(x), coordinate(y), coordinate(scale), title)
}

// inline returns the mark as a picture within text, in the colour of its element's class.
func (l schemeLook) inline() template.HTML {
	return template.HTML(`<svg class="mark" viewBox="-7 -7 14 14" aria-hidden="true">` + l.mark(0, 0, 1, "var(--c)", "") + `</svg>`)
}

// dashes distinguishes lines of one scheme with different parameters: the first of the set's schemes with that name
// is solid.
func dashes(scheme string, all []string) string {
	base := baseName(scheme)
	n := 0
	for _, s := range all {
		if s == scheme {
			break
		}
		if baseName(s) == base {
			n++
		}
	}
	return [...]string{"", "7 3", "2 3", "9 3 2 3"}[n%4]
}

// QuoteShell returns words as one shell command line, quoted where necessary.
func QuoteShell(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@%+", r)
		}) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}
