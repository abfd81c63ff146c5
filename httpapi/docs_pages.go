package httpapi

import (
	"context"
	"html"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/docs"
)

const (
	pageStyle = "body{max-width:48em;margin:2em auto;padding:0 1em;font:16px/1.5 system-ui,sans-serif;color:#222;background:#fff}" +
		"pre{padding:.8em;overflow:auto;background:#f4f4f4}code{background:#f4f4f4}pre,code{font-family:ui-monospace,monospace;font-size:.9em}" +
		"table{border-collapse:collapse}td,th{padding:.3em .6em;border:1px solid #ccc;text-align:left;vertical-align:top}" +
		"@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}pre,code{background:#262626}a{color:#8ab4f8}}"
	pageHead = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">` +
		"<style>" + pageStyle + "</style>"
)

// pagePolicy allows the one style of the pages and nothing else.
var pagePolicy = strings.Join([]string{
	"default-src 'none'", "style-src" + hashes([]byte(pageHead), inlineStyle), "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'",
}, "; ")

var errNoPage = &wireError{code: api.NotFound, detail: "There is no such page; /docs/pages lists them."}

// problemPage answers GET /docs/problems/{code}: what a problem document's type leads to.
func (s *server) problemPage(_ context.Context, c *call) (int, any, error) {
	p, ok := docs.Problem(c.param("code"))
	return shownPage(c, p, ok)
}

// docsIndex answers GET /docs/pages: every document that is served.
func (s *server) docsIndex(_ context.Context, c *call) (int, any, error) {
	var b strings.Builder
	b.WriteString("<h1>Holdfast</h1>\n<ul>\n<li><a href=\"/docs\">API</a></li>\n")
	for _, name := range docs.Names() {
		p, _ := docs.Read(name)
		b.WriteString(`<li><a href="/docs/pages/` + name + `">` + html.EscapeString(p.Title) + "</a></li>\n")
	}
	b.WriteString("</ul>\n")
	return shownPage(c, docs.Page{Title: "Documents", Body: b.String()}, true)
}

// docsPage answers GET /docs/pages/{page} and /docs/pages/{folder}/{page}.
func (s *server) docsPage(_ context.Context, c *call) (int, any, error) {
	name := c.param("page")
	if folder := c.param("folder"); folder != "" {
		name = folder + "/" + name
	}
	p, ok := docs.Read(name)
	return shownPage(c, p, ok)
}

func shownPage(c *call, p docs.Page, ok bool) (int, any, error) {
	if !ok {
		return 0, nil, errNoPage
	}
	c.out["Content-Security-Policy"] = []string{pagePolicy}
	c.out["Referrer-Policy"] = []string{"no-referrer"}
	c.out["Cache-Control"] = []string{"public, max-age=3600"}
	c.out["Content-Type"] = []string{"text/html; charset=utf-8"}
	return http.StatusOK, rawAnswer(pageHead + "<title>" + html.EscapeString(p.Title) + " – Holdfast</title>\n" + p.Body), nil
}
