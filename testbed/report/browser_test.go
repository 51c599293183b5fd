package report

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/controller/view/browsertest"
)

// TestBrowser uses the page as a reader does: wide and on a phone, sorting, filtering, and looking at a picture
// closely.
func TestBrowser(t *testing.T) {
	page := browsertest.Open(t, time.Minute)
	dir := t.ArtifactDir()
	render(t, made(demoFabric, 1, 2), Page{Charts: true, Command: "ethereal run demo.yaml", Sources: []Source{{"demo.yaml", "schemes: [ecmp]"}}})
	var first, last, shown, wider, pictures int
	var text string
	column := `[...document.querySelector("#table table").tBodies[0].rows].map(r => parseFloat(r.cells[2].textContent))`
	err := page.Run(
		browsertest.Navigate("file://"+filepath.Join(dir, "report.html")),
		browsertest.Text(".story", &text),
		browsertest.Click("#table th:nth-child(3)"),
		browsertest.Evaluate(column+".at(0)", &first),
		browsertest.Click("#table th:nth-child(3)"),
		browsertest.Evaluate(column+".at(0)", &last),
		browsertest.Type("#filter", "ethereal gnmi"),
		browsertest.Evaluate(`[...document.querySelectorAll("#table tbody tr")].filter(r => !r.hidden).length`, &shown),
		browsertest.Click(".panel svg.zooms"),
		browsertest.Evaluate(`document.querySelectorAll("dialog[open] svg").length`, &pictures),
		browsertest.Click(`dialog button[aria-label=close]`),
		browsertest.Screen(400, 800, 2),
		browsertest.Evaluate(`document.documentElement.scrollWidth - innerWidth`, &wider),
	)
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		t.Error("the page does not begin with a sentence")
	}
	if first != 1 || last != 2 {
		t.Errorf("sorted by seed, up and down, seed %d and %d come first, want 1 and 2", first, last)
	}
	if shown != 4 { // two collectives, two seeds
		t.Errorf("%d rows have the words ethereal and gnmi, want 4", shown)
	}
	if pictures != 1 {
		t.Errorf("%d pictures are shown large, want 1", pictures)
	}
	if wider > 0 {
		t.Errorf("on a screen of 400 pixels the page is %d wider", wider)
	}
	page.Check(t, "file://"+dir)
}
