package pages

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/windows"
)

// span is how far a chart looks back.
type span struct {
	name  string
	steps int
	day   bool
}

// per is what one step is.
func (s span) per() string {
	if s.day {
		return "day"
	}
	return "hour"
}

// spans that can be chosen; the first is usual. Counts are kept by the hour for 32 days.
var spans = []span{{"24h", 24, false}, {"7d", 7 * 24, false}, {"32d", 32, true}}

// usageBody is the charts of a limit.
type usageBody struct {
	Spans  []choice
	Charts []*web.Chart
}

type choice struct {
	Text, Href string
	Chosen     bool
}

// usage draws what a limit did, for one subject or for all. held is what is held now.
func (p *Pages) usage(ctx context.Context, v *visit, l *limits.Limit, s limits.Subject, held int64) (*usageBody, error) {
	chosen := spans[0]
	for _, one := range spans {
		if v.query("span") == one.name {
			chosen = one
		}
	}
	b := &usageBody{}
	for _, one := range spans {
		q := v.r.URL.Query()
		q.Del("done")
		q.Set("span", one.name)
		b.Spans = append(b.Spans, choice{one.name, p.Prefix + query(limitPath(l.ID), q), one == chosen})
	}
	step := time.Hour
	if chosen.day {
		step = 24 * time.Hour
	}
	to := v.windows.UTC().Truncate(step).Add(step)
	from := to.Add(-time.Duration(chosen.steps) * step)
	rows, complete, err := p.Service.History(ctx, reserve.HistoryQuery{Tenant: v.who.Tenant, Limit: l.ID, Subject: s, From: from, To: to, Day: chosen.day, Max: chosen.steps + 1})
	if err != nil {
		return nil, err
	}
	all := make([]reserve.Rollup, chosen.steps)
	for _, row := range rows {
		if i := int(row.From.Sub(from) / step); i >= 0 && i < len(all) {
			all[i] = row.Rollup
		}
	}
	names := make([]string, chosen.steps)
	for i := range names {
		at := from.Add(time.Duration(i) * step)
		if names[i] = at.Format("15:04"); chosen.day {
			names[i] = at.Format("2 Jan")
		} else if chosen.steps > 24 {
			names[i] = at.Format("2 Jan 15:04")
		}
	}
	note := "Until " + clockWords(v.windows, v.windows) + ", by full hours UTC; reload for later."
	if !complete {
		note += " More subjects came than are told apart: the counts may be too low."
	}
	b.Charts = append(b.Charts, counts(all, names, chosen, note))
	if l.Window.Kind == windows.Concurrent {
		amount := int64(0)
		if rule := p.Service.Catalog(v.who.Tenant).Rule(l, s); (l.Share == limits.All || !s.IsZero()) && !rule.Unlimited {
			amount = rule.Amount
		}
		b.Charts = append(b.Charts, levels(all, names, chosen, held, amount))
	}
	return b, nil
}

// counts draws what was asked for, what of it was refused, and what ended badly.
func counts(all []reserve.Rollup, names []string, chosen span, note string) *web.Chart {
	var sum reserve.Rollup
	started, refused, lost := make([]int64, len(all)), make([]int64, len(all)), make([]int64, len(all))
	for i, r := range all {
		started[i], refused[i], lost[i] = r.Started, r.Refused, r.Expired+r.Forced
		sum.Started, sum.Refused, sum.Expired, sum.Forced = sum.Started+r.Started, sum.Refused+r.Refused, sum.Expired+r.Expired, sum.Forced+r.Forced
	}
	return web.NewChart(web.Bars{
		Name: "counts", Title: "Started and refused by the " + chosen.per(),
		Says:  fmt.Sprintf("In the last %s: %d started, %d refused, %d expired, %d released by force. %s", chosen.name, sum.Started, sum.Refused, sum.Expired, sum.Forced, note),
		Steps: names,
		Series: []web.Series{
			{Class: "started", Title: "started", Values: started},
			{Class: "refused", Title: "refused", Values: refused},
			{Class: "lost", Title: "expired or forced", Values: lost, Down: true},
		},
	})
}

// levels draws how much was held at the end of each step, worked back from what is held now.
func levels(all []reserve.Rollup, names []string, chosen span, held, amount int64) *web.Chart {
	at, most := make([]int64, len(all)), int64(0)
	for i := len(all) - 1; i >= 0; i-- {
		at[i] = max(held, 0)
		most = max(most, at[i])
		r := all[i]
		held += r.Committed + r.Released + r.Expired + r.Forced - r.Started
	}
	says := []string{fmt.Sprintf("%d now, %d at the most.", at[len(at)-1], most), "Worked back from what began and ended: a guess where a replica died before it counted."}
	level := ""
	if amount > 0 {
		level = fmt.Sprintf("amount now, %d", amount)
	}
	return web.NewChart(web.Bars{
		Name: "held", Title: "Held at the end of each " + chosen.per(), Says: strings.Join(says, " "), Steps: names, Level: amount, LevelSays: level, Solid: true,
		Series: []web.Series{{Class: "held", Title: "held", Values: at}},
	})
}
