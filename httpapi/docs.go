package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/swaggest/swgui"
	"github.com/swaggest/swgui/v5emb"

	"github.com/holdfast-dev/holdfast/api"
)

const docsBase = "/docs"

// docsPage is Swagger UI over /openapi.json. Its page has inline scripts and styles; they are
// made once, at the start, and allowed by their hashes, so that no other inline code runs.
type docsPage struct {
	ui   http.Handler
	html []byte
	csp  string
}

func newDocsPage() docsPage {
	ui := v5emb.NewHandlerWithConfig(swgui.Config{
		Title: "Holdfast", SwaggerJSON: "/openapi.json", BasePath: docsBase,
	})
	var made rendered
	ui.ServeHTTP(&made, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: docsBase}})
	html := made.Bytes()
	return docsPage{ui: ui, html: html, csp: strings.Join([]string{
		"default-src 'none'", "script-src 'self'" + hashes(html, inlineScript), "style-src 'self'" + hashes(html, inlineStyle),
		"img-src 'self' data:", "font-src 'self'", "connect-src 'self'", "form-action 'none'", "base-uri 'none'", "frame-ancestors 'none'",
	}, "; ")}
}

// rendered takes what a handler writes.
type rendered struct {
	bytes.Buffer
	header http.Header
}

// Header is thrown away: the page gets its own.
func (r *rendered) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

// WriteHeader has nothing to write to.
func (r *rendered) WriteHeader(int) {}

var (
	inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	inlineStyle  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
)

// hashes are the sources of a content security policy that allow what kind finds.
func hashes(html []byte, kind *regexp.Regexp) string {
	var b strings.Builder
	for _, found := range kind.FindAllSubmatch(html, -1) {
		sum := sha256.Sum256(found[1])
		b.WriteString(" 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'")
	}
	return b.String()
}

func (d docsPage) headers(h http.Header) {
	h["Content-Security-Policy"] = []string{d.csp}
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cross-Origin-Opener-Policy"] = []string{"same-origin"}
}

// page answers GET /docs.
func (d docsPage) page(_ context.Context, c *call) (int, any, error) {
	d.headers(c.out)
	c.out["Content-Type"] = []string{"text/html; charset=utf-8"}
	return http.StatusOK, rawAnswer(d.html), nil
}

var docsAssets = map[string]bool{
	"swagger-ui.css": true, "swagger-ui-bundle.js": true, "swagger-ui-standalone-preset.js": true,
	"favicon-16x16.png": true, "favicon-32x32.png": true,
}

// asset answers GET /docs/{asset}: what the page needs, and nothing else.
func (d docsPage) asset(_ context.Context, c *call) (int, any, error) {
	if !docsAssets[c.params.Param("asset")] {
		return 0, nil, &wireError{code: api.NotFound, detail: "There is no such page."}
	}
	d.headers(c.out)
	c.out["Cache-Control"] = []string{"public, max-age=3600"}
	d.ui.ServeHTTP(c.params.Response().Writer, c.req)
	return http.StatusOK, served{}, nil
}
