package httpapi

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/docs"
)

// Each code has a page in the binary, where a problem document's type leads.
func TestDocsPages_EveryCodeHasOne(t *testing.T) {
	inBubble(t, func(r *rig) {
		for _, code := range api.Codes() {
			g := r.get("", "/docs/problems/"+string(code)).want(http.StatusOK, nil)
			if body := string(g.body); !strings.Contains(body, `<h1 id="`+string(code)+`">`+string(code)+"</h1>") || g.header.Get("Content-Type") != "text/html; charset=utf-8" {
				t.Errorf("%s: got %v %s", code, g.header, body)
			}
		}
		r.get("", "/docs/problems/no-such").problem(api.NotFound)
	})
}

func TestDocsPages_EveryDocumentIsServedAndListed(t *testing.T) {
	inBubble(t, func(r *rig) {
		index := string(r.get("", "/docs/pages").want(http.StatusOK, nil).body)
		names := docs.Names()
		if len(names) < 10 {
			t.Errorf("only %v are served", names)
		}
		for _, name := range names {
			g := r.get("", "/docs/pages/"+name).want(http.StatusOK, nil)
			body := string(g.body)
			if !strings.Contains(index, `"/docs/pages/`+name+`"`) || !strings.Contains(body, "<h1") {
				t.Errorf("%s: is not listed, or has no heading: %s", name, body)
			}
			for _, part := range strings.Split(body, `<a href="`)[1:] {
				to, _, _ := strings.Cut(part, `"`)
				to, _, _ = strings.Cut(html.UnescapeString(to), "#")
				if strings.HasPrefix(to, "/") {
					r.get("", to).want(http.StatusOK, nil)
				}
			}
			if !strings.Contains(g.header.Get("Content-Security-Policy"), "style-src 'sha256-") {
				t.Errorf("%s: %v", name, g.header)
			}
		}
		for _, wrong := range []string{"nothing", "..%2Fgo", "howto/nothing"} {
			r.get("", "/docs/pages/"+wrong).problem(api.NotFound)
		}
	})
}
