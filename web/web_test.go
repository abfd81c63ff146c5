package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/web/webtest"
)

// hostile is what somebody may call a label, an owner or a reason.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)>javascript:alert(1) </style></textarea><!-- {{.}} ` + "\u202e`"

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func newRenderer(t *testing.T) *Renderer {
	t.Helper()
	r, err := New()
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return r
}

// hostileView is a page with every kind of cell, all of them hostile.
func hostileView(page string, body any) View {
	kinds := []Kind{Text, Code, Num, Link, Since, Until, Meter, Pick, Act}
	table := func(name string) *Table {
		t := &Table{Name: name, Caption: hostile, Empty: hostile, More: "/holds?after=" + hostile}
		row := Row{Key: hostile, Level: Bad}
		for i, k := range kinds {
			t.Columns = append(t.Columns, Column{Title: hostile, Kind: k, Main: i == 3})
			row.Cells = append(row.Cells, Cell{Text: hostile, Href: "javascript:alert(1)", At: 1_700_000_000_000, Value: 1, Max: 3, Ref: hostile, Level: Warn})
		}
		t.Rows = []Row{row}
		return t
	}
	v := View{Page: page, Title: hostile, Section: "now", Body: body}
	for _, k := range kinds {
		v.Fields = append(v.Fields, Field{Name: "f" + string(k), Title: hostile, Kind: k, Cell: Cell{Text: hostile, Href: "javascript:alert(1)", At: 1, Level: Bad}})
	}
	v.Around = []Field{{Name: "health", Title: hostile, Kind: Link, Cell: Cell{Text: hostile, Href: "javascript:alert(1)", Level: Bad}}}
	for _, name := range tablesOf[page] {
		v.Tables = append(v.Tables, table(name))
	}
	return v
}

func hostileFrame() Frame {
	return Frame{
		Prefix: "/pre", Path: hostile, Theme: "dark", Who: hostile, Access: hostile, Needs: hostile, Version: hostile,
		Sections: []Section{{Title: hostile, Href: "/holds", Key: "h", Current: true}},
		Notice:   &Notice{hostile, Good}, Live: "/live/?x=" + hostile, Now: 1,
	}
}

// tablesOf are the tables that a page's template asks for.
var tablesOf = map[string][]string{
	"now": {"limits", "expiring", "silent"}, "holds": {"holds"}, "hold": {"places"},
}

// The bodies of this package; those of the pages are executed by the tests of httpapi/pages.
func TestTemplates_HostileValuesStayText(t *testing.T) {
	t.Parallel()
	r := newRenderer(t)
	for page, body := range map[string]any{"login": &SignIn{}, "message": &Message{}, "now": nil} {
		if body != nil {
			v := reflect.ValueOf(body).Elem()
			webtest.Stuff(v, hostile)
			body = v.Interface()
		}
		var b bytes.Buffer
		if err := r.Render(&b, hostileFrame(), hostileView(page, body)); err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		checkHarmless(t, page, b.String())
	}
}

// checkHarmless fails when hostile text became markup.
func checkHarmless(t *testing.T, page, html string) {
	t.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", `href="javascript:`, `url=javascript:`, "</textarea><!--"} {
		if at := strings.Index(html, bad); at >= 0 {
			t.Errorf("%s: hostile text became markup: …%s…", page, html[max(0, at-80):min(len(html), at+120)])
		}
	}
	for _, inline := range []string{" style=", " onclick=", " onerror=\"", "<style", "<script>"} {
		if at := strings.Index(html, inline); at >= 0 {
			t.Errorf("%s: the policy allows no inline %q: …%s…", page, inline, html[max(0, at-80):min(len(html), at+60)])
		}
	}
}

func TestRender_UnknownPageAndMissingTableAreFaults(t *testing.T) {
	t.Parallel()
	r := newRenderer(t)
	for name, v := range map[string]View{"a page there is none of": {Page: "nowhere"}, "a table there is none of": {Page: "now"}} {
		var b bytes.Buffer
		if err := r.Render(&b, Frame{}, v); err == nil || b.Len() > 0 {
			t.Errorf("%s: got %v and %d bytes, want an error and nothing written", name, err, b.Len())
		}
	}
}

func TestFile_OnlyWhatThePageNeeds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		path, err := Asset(name)
		if _, _, ok := File(name); !ok || err != nil || !strings.HasPrefix(path, "/static/"+name+"?v=") {
			t.Errorf("%s: ok %v, path %q, %v", name, ok, path, err)
		}
	}
	for _, name := range []string{"", "..", "../render.go", "x.css", "page.css/", "static/page.css", "layout.html"} {
		if _, _, ok := File(name); ok {
			t.Errorf("%q was found", name)
		}
	}
}

func TestScript_IsSmallAndMakesNoHTML(t *testing.T) {
	t.Parallel()
	js, _, _ := File("page.js")
	if len(js) >= 12<<10 {
		t.Errorf("page.js has %d bytes, want fewer than 12 KiB", len(js))
	}
	for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "setTimeout(\"", ".style."} {
		if bytes.Contains(js, []byte(banned)) {
			t.Errorf("page.js holds %s", banned)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 59*time.Second + 999*time.Millisecond: "59 s", 3*time.Minute + 50*time.Second: "3m50s",
		9*time.Minute + 5*time.Second: "9m05s", 41 * time.Minute: "41m", 2*time.Hour + 5*time.Minute: "2h 5m", 76 * time.Hour: "3d 4h",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%s): got %q, want %q", d, got, want)
		}
	}
}

func rows(keys string) *Table {
	t := &Table{Name: "t", Columns: []Column{{Kind: Text}}}
	for _, k := range strings.Split(keys, "") {
		t.Rows = append(t.Rows, Row{Key: k, Cells: []Cell{{Text: k}}})
	}
	return t
}

// applied is what the script makes of a patch.
func applied(old []string, p TablePatch) []string {
	now := slices.Clone(old)
	if p.Whole {
		now = nil
	}
	now = slices.DeleteFunc(now, func(k string) bool { return slices.Contains(p.Gone, k) })
	for _, r := range p.Rows {
		now = slices.DeleteFunc(now, func(k string) bool { return k == r.Key })
		now = slices.Insert(now, slices.Index(now, r.After)+1, r.Key)
	}
	return now
}

// Whatever the order was and becomes, what is told leads from one to the other.
func TestDiff_LeadsFromOneToTheOther(t *testing.T) {
	t.Parallel()
	lists := []string{"", "a", "ab", "ba", "abc", "cab", "bca", "cba", "acbd", "dabc", "xaybz", "zyx", "abcdefgh", "hgfedcba", "bdfhaceg"}
	for _, from := range lists {
		for _, to := range lists {
			old, next := View{Tables: []*Table{rows(from)}}, View{Tables: []*Table{rows(to)}}
			p := Diff(&old, next, 1)
			if got := strings.Join(applied(strings.Split(from, ""), p.Tables["t"]), ""); got != to {
				t.Errorf("%q to %q: the patch %+v gives %q", from, to, p.Tables["t"], got)
			}
			if whole := Diff(nil, next, 1).Tables["t"]; strings.Join(applied(strings.Split(from, ""), whole), "") != to {
				t.Errorf("%q to %q: the whole of it gives another list: %+v", from, to, whole)
			}
			if from == to && !p.Empty() {
				t.Errorf("%q to itself: got %+v, want nothing", from, p)
			}
		}
	}
}

func TestDiff_AgesAreNotTold(t *testing.T) {
	t.Parallel()
	at := func(ms int64) View {
		return View{
			Fields: []Field{{Name: "ends", Kind: Until, Cell: Cell{Text: fmt.Sprint(ms), At: ms}}},
			Tables: []*Table{{Name: "t", Columns: []Column{{Kind: Since}}, Rows: []Row{{Key: "k", Cells: []Cell{{Text: fmt.Sprint(ms), At: ms}}}}}},
		}
	}
	old := at(10_000)
	if p := Diff(&old, at(10_000+slack-1), 1); !p.Empty() {
		t.Errorf("a jitter is told: %+v", p)
	}
	if Digest(old) != Digest(at(20_000)) {
		t.Error("the digest depends on instants")
	}
	if p := Diff(&old, at(10_000+slack), 1); len(p.Fields) != 1 || len(p.Tables) != 1 {
		t.Errorf("an extend is not told: %+v", p)
	}
	encoded, err := json.Marshal(Diff(nil, old, 7))
	if want := `{"now":7,"fields":{"ends":{"t":"10000","a":10000}},"tables":{"t":{"rows":[{"k":"k","c":[{"t":"10000","a":10000}],"p":""}],"size":1,"whole":true}}}`; err != nil || string(encoded) != want {
		t.Errorf("the script reads %s, %v, want %s", encoded, err, want)
	}
}
