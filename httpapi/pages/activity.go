package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

// activityBody is the trail's filter.
type activityBody struct {
	Actor, Act, Target string
	Acts               []option
	Clear              string
}

// knownActs are what the trail tells of, for the form to offer.
var knownActs = []string{
	"reservation.force-release", "limit.create", "limit.change", "limit.delete", "limit.pause", "limit.resume", "limit.reset",
	"override.set", "override.delete", "file.apply", "plan.set", "plan.delete", "subject.block", "subject.unblock", "waiter.cancel", "janitor.run", "session.link", "clock.advance",
}

// activity is what people did on purpose, the latest first.
func (p *Pages) activity(ctx context.Context, v *visit) (web.View, error) {
	values := v.r.URL.Query()
	for name, all := range values {
		if len(all) > 1 || len(all[0]) > 512 || strings.IndexFunc(all[0], unicode.IsControl) >= 0 {
			return web.View{}, wrong("The filter " + strconv.Quote(name) + " cannot be read.")
		}
	}
	q := reserve.TrailQuery{Tenant: v.who.Tenant, Actor: values.Get("actor"), Act: values.Get("act"), Target: values.Get("target"), Max: maxRows}
	if after := values.Get("after"); after != "" {
		rank, index, _ := strings.Cut(after, ".")
		r, err := strconv.ParseInt(rank, 10, 64)
		i, indexErr := strconv.ParseInt(index, 10, 64)
		if err != nil || indexErr != nil {
			return web.View{}, wrong("This page of the list cannot be found; start at its beginning.")
		}
		q.After.Rank, q.After.Index = r, i
	}
	t, err := p.trailTable(ctx, v, q)
	if err != nil {
		return web.View{}, err
	}
	b := activityBody{Actor: q.Actor, Act: q.Act, Target: q.Target, Acts: []option{{"", "every act", q.Act == ""}}}
	for _, act := range knownActs {
		b.Acts = append(b.Acts, option{act, act, act == q.Act})
	}
	if q.Actor+q.Act+q.Target != "" {
		b.Clear = p.Prefix + "/activity"
	}
	return web.View{Page: "activity", Title: "Activity", Section: "activity", Tables: []*web.Table{t}, Body: b}, nil
}

// trailTable is lines of the trail. Each has a place of its own, which its link names.
func (p *Pages) trailTable(ctx context.Context, v *visit, q reserve.TrailQuery) (*web.Table, error) {
	t := &web.Table{
		Name: "trail", Caption: "What people did, the latest first", Empty: "Nothing was done that fits.",
		Columns: []web.Column{
			{Title: "Ago", Kind: web.Since},
			{Title: "Who", Kind: web.Link},
			{Title: "Act", Kind: web.Text},
			{Title: "On", Kind: web.Link, Main: true},
			{Title: "Before → after", Kind: web.Text},
			{Title: "Reason", Kind: web.Text},
			{Title: "From", Kind: web.Text},
			{Title: "Request", Kind: web.Code},
		},
	}
	lines, err := p.Service.Trail(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range lines {
		l := &lines[i]
		key := fmt.Sprintf("%d.%d", l.Place.Rank, l.Place.Index)
		t.Rows = append(t.Rows, web.Row{Key: key, Cells: []web.Cell{
			web.Ago(l.Note.At, v.now),
			{Text: l.Note.Actor, Href: p.Prefix + query("/activity", url.Values{"actor": {l.Note.Actor}})},
			{Text: l.Act},
			{Text: l.Target, Href: p.targetPath(l.Act, l.Target)},
			{Text: changeWords(l.Before, l.After)},
			{Text: l.Note.Reason},
			{Text: l.Note.Address},
			{Text: l.Note.RequestID},
		}})
	}
	if len(lines) == q.Max && q.Max == maxRows {
		next := v.r.URL.Query()
		next.Set("after", t.Rows[len(t.Rows)-1].Key)
		t.More = p.Prefix + query("/activity", next)
	}
	return t, nil
}

// targetPath leads to what an act was done on.
func (p *Pages) targetPath(act, target string) string {
	switch family, _, _ := strings.Cut(act, "."); family {
	case "reservation":
		return p.Prefix + holdPath(target)
	case "limit", "override":
		id, _, _ := strings.Cut(target, "/")
		return p.Prefix + limitPath(id)
	case "subject", "plan":
		if kind, id, ok := strings.Cut(target, ":"); ok {
			return p.Prefix + "/subjects/" + url.PathEscape(kind) + "/" + url.PathEscape(id)
		}
	}
	return ""
}

// changeWords is what changed, field by field.
func changeWords(before, after string) string {
	was, is := factsOf(before), factsOf(after)
	names := map[string]bool{}
	for name := range was {
		names[name] = true
	}
	for name := range is {
		names[name] = true
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch old, next := was[name], is[name]; {
		case old == next:
		case before == "":
			words = append(words, name+" "+next)
		case after == "":
			words = append(words, name+" "+old)
		default:
			words = append(words, name+" "+old+" → "+next)
		}
	}
	const most = 8
	if len(words) > most {
		words = append(words[:most], fmt.Sprintf("and %d more", len(words)-most))
	}
	return strings.Join(words, ", ")
}

// factsOf reads a note's facts, each as text; nothing for null.
func factsOf(text string) map[string]string {
	raw := map[string]json.RawMessage{}
	if text == "" || json.Unmarshal([]byte(text), &raw) != nil {
		return nil
	}
	facts := map[string]string{}
	for name, value := range raw {
		var s string
		switch {
		case bytes.Equal(value, []byte("null")):
		case json.Unmarshal(value, &s) == nil:
			facts[name] = strconv.Quote(s)
		default:
			facts[name] = string(value)
		}
	}
	return facts
}
