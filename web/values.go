package web

import (
	"fmt"
	"time"
)

// Kind is what the cells of a column are.
type Kind string

// The kinds. A column has one, so that a row can be made anew from an empty one.
const (
	Text  Kind = "text"
	Code  Kind = "code"  // an id, in fixed width
	Num   Kind = "num"   // set to the right
	Link  Kind = "link"  // text that leads somewhere when Href is set
	Since Kind = "since" // how long ago At was, counted on by the script
	Until Kind = "until" // how long until At
	Meter Kind = "meter" // Value of Max, drawn
	Spark Kind = "spark" // Text, and Ref: the same over time, in characters of rising height
	Pick  Kind = "pick"  // a checkbox whose value is Ref
	Act   Kind = "act"   // a button that leads to the form of an act on what Ref says, or opens it as a dialog
)

// Level colours a row or a cell, and is never the only thing that tells it.
type Level string

// The levels.
const (
	Plain Level = ""
	Good  Level = "good"
	Note  Level = "note" // worth knowing
	Warn  Level = "warn"
	Bad   Level = "bad"
	Faint Level = "faint"
)

// Cell is one value. Text is what is read, also where something is drawn.
type Cell struct {
	Text  string `json:"t,omitempty"`
	Href  string `json:"h,omitempty"` // of this page, or http(s) elsewhere
	At    int64  `json:"a,omitempty"` // Unix milliseconds, of since and until
	Value int64  `json:"v,omitempty"`
	Max   int64  `json:"m,omitempty"`
	Ref   string `json:"r,omitempty"`
	Level Level  `json:"l,omitempty"`
}

// Row is one line of a table. Key is its own within the table.
type Row struct {
	Key   string `json:"k"`
	Level Level  `json:"l,omitempty"`
	Cells []Cell `json:"c"`
}

// Column is one column of a table. Main is where a row leads: its cell is a link.
type Column struct {
	Title string
	Kind  Kind
	Main  bool
}

// Table is a list that may change while it is looked at.
type Table struct {
	Name    string // its own within the page
	Caption string // read out before the table
	Columns []Column
	Rows    []Row
	Empty   string // what is said instead of no rows
	More    string // where the next rows are; "": nowhere
}

// Field is one value outside tables that may change while it is looked at.
type Field struct {
	Name, Title string
	Kind        Kind
	Cell
}

// View is one page. Page names its template, Body is what that template needs beside.
type View struct {
	Page, Title, Section string
	Fields               []Field
	Tables               []*Table
	Body                 any
	Around               []Field // over the page: how the service is
	Still                bool    // nothing in it changes by itself
}

// Table is the table of that name. A template that names none is a fault of ours.
func (v View) Table(name string) (*Table, error) {
	for _, t := range v.Tables {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("web: %s has no table %q", v.Page, name)
}

// HasTable reports whether there is a table of that name.
func (v View) HasTable(name string) bool {
	for _, t := range v.Tables {
		if t.Name == name {
			return true
		}
	}
	return false
}

// Age is a since or until cell's text, as the script writes it too: 22 s, 3m50s, 41m, 2h 5m,
// 3d 4h. Below nothing it is nothing.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch s := int64(max(0, d) / time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", s)
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", s/60)
	case d < day:
		return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd %dh", s/86400, s/3600%24)
	}
}

// Ago is the cell of a column of kind Since. The zero instant is an empty cell.
func Ago(at, now time.Time) Cell {
	if at.IsZero() {
		return Cell{}
	}
	return Cell{Text: Age(now.Sub(at)), At: at.UnixMilli()}
}

// In is the cell of a column of kind Until.
func In(at, now time.Time) Cell {
	if at.IsZero() {
		return Cell{}
	}
	if !at.After(now) {
		return Cell{Text: "now", At: at.UnixMilli()}
	}
	return Cell{Text: "in " + Age(at.Sub(now)), At: at.UnixMilli()}
}
