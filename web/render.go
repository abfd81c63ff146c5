package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

//go:embed templates/*.html
var sources embed.FS

//go:embed static
var static embed.FS

// MaxPage bounds the HTML of one page, in bytes: 2,000 rows are about 3 MB.
const MaxPage = 32 << 20

// Renderer executes the templates. Safe for concurrent use.
type Renderer struct {
	pages map[string]*template.Template
}

// shared are the templates that every page has; each other file is one page.
var shared = []string{"layout", "parts"}

// New parses every template. Errors: one that does not parse is a fault of ours.
func New() (*Renderer, error) {
	r := &Renderer{pages: map[string]*template.Template{}}
	base := template.New("").Funcs(template.FuncMap{
		"asset": Asset, "instant": instant, "arg": arg, "iso": iso,
	})
	for _, name := range shared {
		text, err := sources.ReadFile("templates/" + name + ".html")
		if err != nil {
			return nil, fmt.Errorf("web: %w", err)
		}
		if _, err := base.Parse(string(text)); err != nil {
			return nil, fmt.Errorf("web: %s: %w", name, err)
		}
	}
	files, err := fs.Glob(sources, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("web: %w", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".html")
		if name == shared[0] || name == shared[1] {
			continue
		}
		page, err := base.Clone()
		if err == nil {
			_, err = page.ParseFS(sources, file)
		}
		if err != nil {
			return nil, fmt.Errorf("web: %s: %w", name, err)
		}
		r.pages[name] = page
	}
	return r, nil
}

// Pages are the names a View may have.
func (r *Renderer) Pages() []string {
	names := make([]string, 0, len(r.pages))
	for name := range r.pages {
		names = append(names, name)
	}
	return names
}

// Render writes one page, whole or not at all.
// Errors: a page that there is none of, a value its template cannot use, a page over MaxPage:
// faults of ours, nothing was written; those of w.
func (r *Renderer) Render(w io.Writer, f Frame, v View) error {
	page, ok := r.pages[v.Page]
	if !ok {
		return fmt.Errorf("web: there is no page %q", v.Page)
	}
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, "layout", struct {
		Frame
		View View
	}{f, v}); err != nil {
		return fmt.Errorf("web: %w", err)
	}
	if b.Len() > MaxPage {
		return fmt.Errorf("web: %s has %d bytes, at most %d", v.Page, b.Len(), MaxPage)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// instant is At for people who want it exact.
func instant(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC")
}

// iso is At for programs.
func iso(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// arg is several values for one template.
func arg(pairs ...any) (map[string]any, error) {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("web: %v is no name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// File is one static file: its bytes and what they are. ok is false for a name there is none of.
func File(name string) (data []byte, contentType string, ok bool) {
	types := map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	contentType, ok = types[path.Ext(name)]
	if !ok || strings.Contains(name, "/") {
		return nil, "", false
	}
	data, err := static.ReadFile("static/" + name)
	return data, contentType, err == nil
}

// Asset is the path of a static file, under a name that changes with its bytes, so that
// browsers may keep it. Errors: a name there is none of.
func Asset(name string) (string, error) {
	data, _, ok := File(name)
	if !ok {
		return "", fmt.Errorf("web: there is no file %q", name)
	}
	sum := sha256.Sum256(data)
	return "/static/" + name + "?v=" + hex.EncodeToString(sum[:6]), nil
}
