package pages

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
)

func urlValue(s string) string { return url.QueryEscape(s) }

// holdFilters are the parameters that say which holds are shown, as the form has them.
var holdFilters = []string{"q", "limit", "subject", "owner", "host", "sort"}

var holdOrders = []struct {
	value, text string
	order       reserve.Order
}{
	{"oldest", "oldest first", reserve.Oldest},
	{"newest", "newest first", reserve.Newest},
	{"expiring", "ending first", reserve.Expiring},
	{"silent", "longest silent first", reserve.Silent},
}

// holdsBody is what the page of holds needs beside its table.
type holdsBody struct {
	Q, Limit, Subject, Owner, Host string
	Orders                         []option
	Chips                          []web.Choice
	Clear, CSV, JSON               string
	MayForce                       bool
}

type option struct {
	Value, Text string
	Chosen      bool
}

// holdQuery reads a filter off the address.
func (v *visit) holdQuery() (reserve.Query, error) {
	q := reserve.Query{Tenant: v.who.Tenant, Max: maxHolds}
	values := v.r.URL.Query()
	for name, all := range values {
		if len(all) > 1 || len(all[0]) > 512 || strings.IndexFunc(all[0], unicode.IsControl) >= 0 {
			return q, wrong("The filter " + strconv.Quote(name) + " cannot be read.")
		}
	}
	var err error
	if text := values.Get("subject"); text != "" {
		if q.Subject, err = limits.ParseSubject(text); err != nil {
			return q, wrong("A subject is written kind:id, such as user:u_42.")
		}
	}
	q.Prefix, q.Limit, q.Owner, q.Host = values.Get("q"), values.Get("limit"), values.Get("owner"), values.Get("host")
	if sort := values.Get("sort"); sort != "" {
		i := slices.IndexFunc(holdOrders, func(o struct {
			value, text string
			order       reserve.Order
		},
		) bool {
			return o.value == sort
		})
		if i < 0 {
			return q, wrong("The order must be oldest, newest, expiring or silent.")
		}
		q.Sort = holdOrders[i].order
	}
	if after := values.Get("after"); after != "" {
		if q.After, err = readPosition(after); err != nil {
			return q, wrong("This page of the list cannot be found; start at its beginning.")
		}
	}
	return q, nil
}

// A position in the address is the sort key and the id. Whoever forges one sees no more than
// the list shows anyway.
func positionText(p reserve.Position) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(p.At)), p.ID[:]...))
}

func readPosition(text string) (p reserve.Position, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 8+len(p.ID) {
		return p, errNothing
	}
	p.At = int64(binary.BigEndian.Uint64(b))
	copy(p.ID[:], b[8:])
	return p, nil
}

// holds is the list of what is held.
func (p *Pages) holds(ctx context.Context, v *visit) (web.View, error) {
	q, err := v.holdQuery()
	if err != nil {
		return web.View{}, err
	}
	all, err := p.Service.List(ctx, q)
	if err != nil {
		return web.View{}, err
	}
	mayForce := v.who.Has(auth.HoldsForce)
	if !mayForce {
		v.needs = auth.HoldsForce
	}
	t := p.holdsTable("holds", v, all, mayForce)
	if len(all) == maxHolds {
		next := v.r.URL.Query()
		next.Set("after", positionText(q.Place(all[len(all)-1])))
		t.More = p.Prefix + query("/holds", next)
	}
	told := strconv.Itoa(len(all))
	if len(all) == maxHolds {
		told += " and more"
	}
	return web.View{
		Page: "holds", Title: "Holds", Section: "holds", Tables: []*web.Table{t}, Body: p.holdsBody(v, mayForce),
		Fields: []web.Field{{Name: "shown", Title: "held", Kind: web.Num, Cell: web.Cell{Text: told}}},
	}, nil
}

func (p *Pages) holdsBody(v *visit, mayForce bool) holdsBody {
	values := v.r.URL.Query()
	filter := url.Values{}
	b := holdsBody{
		Q: values.Get("q"), Limit: values.Get("limit"), Subject: values.Get("subject"), Owner: values.Get("owner"), Host: values.Get("host"),
		MayForce: mayForce,
	}
	for _, name := range holdFilters {
		if values.Get(name) != "" {
			filter.Set(name, values.Get(name))
		}
	}
	for _, name := range holdFilters {
		if text := filter.Get(name); text != "" && name != "sort" {
			less := url.Values{}
			for _, other := range holdFilters {
				if other != name && filter.Get(other) != "" {
					less.Set(other, filter.Get(other))
				}
			}
			label := name
			if name == "q" {
				label = "search"
			}
			b.Chips = append(b.Chips, web.Choice{Text: label + ": " + text, Href: p.Prefix + query("/holds", less)})
		}
	}
	if len(b.Chips) > 0 {
		b.Clear = p.Prefix + "/holds"
	}
	for _, o := range holdOrders {
		b.Orders = append(b.Orders, option{o.value, o.text, o.value == filter.Get("sort")})
	}
	b.CSV, b.JSON = p.Prefix+query("/holds.csv", filter), p.Prefix+query("/holds.json", filter)
	return b
}

func (p *Pages) holdsTable(name string, v *visit, all []reserve.Reservation, pick bool) *web.Table {
	t := &web.Table{Name: name, Caption: "What is held", Empty: "Nothing is held that fits.", Columns: []web.Column{
		{Title: "Hold", Kind: web.Link, Main: true},
		{Title: "Limit", Kind: web.Text},
		{Title: "Subject", Kind: web.Link},
		{Title: "Owner", Kind: web.Link},
		{Title: "Host / process", Kind: web.Text},
		{Title: "Since", Kind: web.Since},
		{Title: "Ends", Kind: web.Until},
		{Title: "Last heartbeat", Kind: web.Since},
		{Title: "Fence", Kind: web.Num},
		{Title: "Labels", Kind: web.Text},
	}}
	if pick {
		t.Columns = append([]web.Column{{Title: "Tick", Kind: web.Pick}}, t.Columns...)
	}
	for i := range all {
		h := &all[i]
		id := h.ID.String()
		row := web.Row{Key: id, Cells: []web.Cell{
			{Text: shortID(id), Href: p.Prefix + holdPath(id)},
			{Text: placeWords(h)},
			p.subjectCell(h.Subject), ownerCell(h.Owner),
			{Text: hostWords(h.Owner)},
			web.Ago(h.CreatedAt, v.now), web.In(h.Expires, v.now), beatCell(h, v.now),
			{Text: strconv.FormatInt(h.Fence, 10)},
			{Text: labelWords(h.Labels)},
		}}
		if pick {
			row.Cells = append([]web.Cell{{Text: "tick " + shortID(id), Ref: id + ":" + strconv.FormatInt(h.Fence, 10)}}, row.Cells...)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
