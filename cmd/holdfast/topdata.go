package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// topPage bounds what one look asks of each list, in rows.
const topPage = "500"

// topPicture is the server at one moment, as top shows it.
type topPicture struct {
	At      api.Time          `json:"at"` // the server's clock
	Limits  []topFill         `json:"limits"`
	Holds   []api.Reservation `json:"holds"`
	Waiters []api.Waiter      `json:"waiters"`
	More    bool              `json:"more"` // a list goes on beyond its page
}

// topFill is how full a limit is for one subject. Amount is below 0 where this token may not see it.
type topFill struct {
	Limit   string `json:"limit"`
	Subject string `json:"subject"` // "all" for a limit that all share
	Used    int64  `json:"used"`
	Amount  int64  `json:"amount"`
	Waiting int64  `json:"waiting"`
	Paused  bool   `json:"paused,omitempty"`
}

// look reads what top shows: three lists, a page of each.
func (c *caller) look(ctx context.Context) (p topPicture, err error) {
	var holds api.Page[api.Reservation]
	var waiters api.Page[api.Waiter]
	var limits api.Page[api.Limit]
	got, err := c.do(ctx, act{
		method: http.MethodGet, path: "/v1/reservations", into: &holds,
		query: url.Values{"state": {api.StateHeld}, "sort": {"oldest"}, "pageSize": {topPage}},
	})
	if err != nil {
		return p, err
	}
	if _, err = c.do(ctx, act{method: http.MethodGet, path: "/v1/waiters", into: &waiters, query: url.Values{"pageSize": {topPage}}}); err != nil {
		return p, err
	}
	_, err = c.do(ctx, act{method: http.MethodGet, path: "/v1/limits", into: &limits, query: url.Values{"pageSize": {topPage}}})
	if problem, ok := errors.AsType[*api.Problem](err); err != nil && (!ok || problem.Code != api.Forbidden) {
		return p, err // without limits:read there are holds and waiters, and no amounts
	}
	p = topPicture{At: api.At(got.at), Holds: holds.Data, Waiters: waiters.Data}
	p.More = holds.NextCursor != nil || waiters.NextCursor != nil || limits.NextCursor != nil
	p.Limits = fills(limits.Data, holds.Data, waiters.Data)
	return p, nil
}

// fills counts the slots of each limit and subject that anybody holds or waits for; the fullest
// comes first.
func fills(limits []api.Limit, holds []api.Reservation, waiters []api.Waiter) []topFill {
	type key struct{ limit, subject string }
	known, at, all := map[string]*api.Limit{}, map[key]int{}, []topFill{}
	for i := range limits {
		known[limits[i].ID] = &limits[i]
	}
	of := func(limit string, s api.Subject) *topFill {
		k, fill := key{limit, s.Kind + ":" + s.ID}, topFill{Limit: limit, Amount: -1}
		if l := known[limit]; l != nil {
			fill.Amount, fill.Paused = amountNow(l), l.Paused
			if l.Share == "all" {
				k.subject = "all"
			}
		}
		i, there := at[k]
		if !there {
			i = len(all)
			fill.Subject = k.subject
			at[k], all = i, append(all, fill)
		}
		return &all[i]
	}
	for i := range holds {
		for _, s := range holds[i].Slots {
			of(s.Limit, holds[i].Subject).Used++
		}
	}
	for i := range waiters {
		of(waiters[i].Limit, waiters[i].Subject).Waiting++
	}
	slices.SortFunc(all, func(x, y topFill) int {
		return cmp.Or(cmp.Compare(y.share(), x.share()), cmp.Compare(y.Waiting, x.Waiting),
			strings.Compare(x.Limit, y.Limit), strings.Compare(x.Subject, y.Subject))
	})
	return all
}

// amountNow is a limit's amount in force for everyone.
func amountNow(l *api.Limit) int64 {
	switch {
	case l.Override != nil && l.Override.Amount != nil:
		return *l.Override.Amount
	case l.Override != nil:
		return -1 // unlimited
	case l.Scheduled != nil:
		return l.Scheduled.Amount
	}
	return l.Amount
}

// share is how much of the amount is used; 0 where the amount is not known.
func (f topFill) share() float64 {
	if f.Amount <= 0 {
		return 0
	}
	return float64(f.Used) / float64(f.Amount)
}

// matches reports whether text stands in any word of a row.
func matches(text string, words ...string) bool {
	return text == "" || slices.ContainsFunc(words, func(w string) bool {
		return strings.Contains(strings.ToLower(w), strings.ToLower(text))
	})
}

// narrowed is p with the rows in which text stands.
func (p topPicture) narrowed(text string) topPicture {
	p.Limits = kept(p.Limits, func(f topFill) bool { return matches(text, f.Limit, f.Subject) })
	p.Holds = kept(p.Holds, func(h api.Reservation) bool {
		return matches(text, h.ID, ownerAt(h.Owner), h.Subject.Kind+":"+h.Subject.ID, h.Action, slots(h))
	})
	p.Waiters = kept(p.Waiters, func(w api.Waiter) bool {
		return matches(text, w.ID, ownerAt(w.Owner), w.Subject.Kind+":"+w.Subject.ID, w.Limit)
	})
	return p
}

func kept[T any](all []T, keep func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(v T) bool { return !keep(v) })
}

// The tables of top.

func (p topPicture) fillTable() *table {
	t := newTable("LIMIT", "SUBJECT", "USED", "", "WAIT")
	for _, f := range p.Limits {
		used, bar := number(f.Used), "?"
		if f.Amount >= 0 {
			n := min(int(f.share()*topBar+0.5), topBar)
			used, bar = used+" of "+number(f.Amount), "["+strings.Repeat("#", n)+strings.Repeat(".", topBar-n)+"]"
		}
		if f.Paused {
			used += " paused"
		}
		t.row(f.Limit, f.Subject, used, bar, number(f.Waiting))
	}
	return t
}

const topBar = 20 // characters

func (p topPicture) waiterTable() *table {
	t := newTable("WAITER", "LIMIT", "SUBJECT", "PLACE", "OWNER", "SINCE", "GIVES UP")
	for _, w := range p.Waiters {
		t.row(w.ID, w.Limit, w.Subject.Kind+":"+w.Subject.ID, number(w.Place), ownerAt(w.Owner),
			short(p.At.Sub(w.Since.Time)), "in "+short(w.GivesUpAt.Sub(p.At.Time)))
	}
	return t
}

// summary is p in one line.
func (p topPicture) summary() string {
	full := 0
	for _, f := range p.Limits {
		if f.share() >= 1 {
			full++
		}
	}
	text := number(int64(full)) + " full   " + number(int64(len(p.Holds))) + " held   " + number(int64(len(p.Waiters))) + " wait"
	if p.More {
		text += "   (the first " + topPage + " of each)"
	}
	return text + "   " + p.At.UTC().Format(time.TimeOnly) + " UTC"
}
