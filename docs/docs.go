// Package docs is the documents that the binary serves, so that the pages which problem
// documents point at are there without a way to the outside. It reads Markdown as this folder
// writes it, and knows nothing of what it says.
package docs

import (
	"embed"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed *.md howto/*.md reference/*.md explanation/*.md
var files embed.FS

// Page is one document, or one section of it, as HTML.
type Page struct {
	Title string
	Body  string // to be put into a page as it is
}

// Read is the document of that name: its path here without .md, such as "runbook" or
// "howto/exec". ok is false when there is none.
func Read(name string) (p Page, ok bool) {
	text, err := files.ReadFile(name + ".md")
	if err != nil || path.Clean(name) != name {
		return Page{}, false
	}
	return page(string(text), path.Dir(name)), true
}

// Problem is the section of problems.md about a code. ok is false when there is none.
func Problem(code string) (p Page, ok bool) {
	text, err := files.ReadFile("problems.md")
	if err != nil {
		return Page{}, false
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		if title == code {
			return page("# "+section, "."), true
		}
	}
	return Page{}, false
}

// Names are the documents there are, by name, ascending.
func Names() (names []string) {
	_ = fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimSuffix(p, ".md"))
		}
		return nil
	})
	slices.Sort(names)
	return names
}

func page(text, folder string) Page {
	r := renderer{folder: folder}
	for line := range strings.Lines(text) {
		r.line(strings.TrimRight(line, "\n"))
	}
	r.end()
	return Page{Title: r.title, Body: r.out.String()}
}
