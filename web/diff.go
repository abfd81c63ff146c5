package web

import (
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"slices"
)

// slack is how far an instant may move before it is told again, in milliseconds: a time left
// is read anew each time, and differs by what the reading took.
const slack = 1_500

// Patch is what changed on a page: what the script applies.
type Patch struct {
	Now    int64                 `json:"now"` // Unix milliseconds
	Fields map[string]Cell       `json:"fields,omitempty"`
	Tables map[string]TablePatch `json:"tables,omitempty"`
}

// TablePatch is what changed in one table: rows that are gone, then rows as they stand now,
// each behind the row After ("": at the top), in the order in which they are to be put.
type TablePatch struct {
	Gone []string   `json:"gone,omitempty"`
	Rows []RowPatch `json:"rows,omitempty"`
	Size int        `json:"size"`

	Whole bool `json:"whole,omitempty"` // Rows are all there are
}

// RowPatch is a row and where it belongs.
type RowPatch struct {
	Row
	After string `json:"p"`
}

// Empty reports whether there is nothing to tell.
func (p Patch) Empty() bool { return len(p.Fields) == 0 && len(p.Tables) == 0 }

// Diff is what makes of the page old the page next. A nil old knows nothing: everything is
// told, and rows that next has not are not known to be gone.
func Diff(old *View, next View, now int64) Patch {
	p := Patch{Now: now}
	var before map[string]Cell
	var tables []*Table
	if old != nil {
		before = make(map[string]Cell, len(old.Fields)+len(old.Around))
		for _, f := range slices.Concat(old.Fields, old.Around) {
			before[f.Name] = f.Cell
		}
		tables = old.Tables
	}
	for _, f := range slices.Concat(next.Fields, next.Around) {
		if was, known := before[f.Name]; !known || !same(was, f.Cell, f.Kind) {
			if p.Fields == nil {
				p.Fields = map[string]Cell{}
			}
			p.Fields[f.Name] = f.Cell
		}
	}
	for _, t := range next.Tables {
		var was *Table
		if i := slices.IndexFunc(tables, func(o *Table) bool { return o.Name == t.Name }); i >= 0 {
			was = tables[i]
		}
		tp, changed := diffTable(was, t)
		tp.Whole = was == nil
		if changed || tp.Whole {
			if p.Tables == nil {
				p.Tables = map[string]TablePatch{}
			}
			p.Tables[t.Name] = tp
		}
	}
	return p
}

func diffTable(old, next *Table) (p TablePatch, changed bool) {
	p.Size = len(next.Rows)
	var order []string // of the rows that stay, as the page has them
	was := map[string]Row{}
	if old != nil {
		stays := make(map[string]bool, len(next.Rows))
		for _, r := range next.Rows {
			stays[r.Key] = true
		}
		for _, r := range old.Rows {
			if !stays[r.Key] {
				p.Gone = append(p.Gone, r.Key)
				continue
			}
			was[r.Key] = r
			order = append(order, r.Key)
		}
	}
	moved := map[string]bool{}
	at, after := 0, ""
	for _, r := range next.Rows {
		o, known := was[r.Key]
		for at < len(order) && moved[order[at]] {
			at++
		}
		inPlace := known && at < len(order) && order[at] == r.Key
		if inPlace {
			at++
		} else if known {
			moved[r.Key] = true
		}
		if !inPlace || !sameRow(o, r, next.Columns) {
			p.Rows = append(p.Rows, RowPatch{Row: r, After: after})
		}
		after = r.Key
	}
	return p, len(p.Gone) > 0 || len(p.Rows) > 0
}

func sameRow(a, b Row, columns []Column) bool {
	if a.Level != b.Level || len(a.Cells) != len(b.Cells) {
		return false
	}
	for i := range a.Cells {
		if !same(a.Cells[i], b.Cells[i], columns[i].Kind) {
			return false
		}
	}
	return true
}

// same passes over the text of an age, which the page counts on by itself.
func same(a, b Cell, k Kind) bool {
	if k == Since || k == Until {
		d := a.At - b.At
		return a.Level == b.Level && a.Href == b.Href && d > -slack && d < slack && (a.At == 0) == (b.At == 0) && (a.At != 0 || a.Text == b.Text)
	}
	return a == b
}

// Around is a patch of what stands over a page alone.
func Around(fields []Field, now int64) Patch {
	return Diff(nil, View{Around: fields}, now)
}

// Digest is the same for two views that Diff finds nothing between, and for few others. A page
// that was rendered with it need not be told what it shows.
// What stands around the page is no part of it. Cost: one encoding of the tables.
func Digest(v View) string {
	hash := fnv.New64a()
	write := func(value any) {
		encoded, err := json.Marshal(value)
		if err == nil { // text and numbers always encode
			_, _ = hash.Write(encoded)
		}
	}
	for _, f := range v.Fields {
		write(f.Name)
		write(timeless(f.Cell, f.Kind))
	}
	for _, t := range v.Tables {
		write(t.Name)
		for _, r := range t.Rows {
			write(r.Key)
			write(r.Level)
			for i, c := range r.Cells {
				write(timeless(c, t.Columns[i].Kind))
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func timeless(c Cell, k Kind) Cell {
	if (k == Since || k == Until) && c.At != 0 {
		c.Text, c.At = "", 1
	}
	return c
}
