package pages

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of the look at what was refused.
const (
	refusedEvery = 5 * time.Second // one look serves every page of a tenant meanwhile
	refusedHours = 12              // that Right now draws
	mostTenants  = 64              // whose look is kept
)

// refused is what a tenant's limits refused, by the hour. "Lately" is the present hour and the
// one before: counts are kept by the hour.
type refused struct {
	at     time.Time
	lately int64
	hours  []int64                      // the last refusedHours, ascending
	limits map[string]reserve.RefusedBy // lately
}

// of is what one limit refused lately within one scope.
func (r *refused) of(limit, scope string) int64 {
	by := r.limits[limit]
	if scope == limits.AllScope {
		return by.All
	}
	return by.Scopes[scope]
}

// denials keeps the last look of each tenant.
type denials struct {
	mu  sync.Mutex
	all map[string]*refused
}

// refusals is the last look, or a new one. What cannot be read is not shown: it is no reason to
// show nothing else.
func (p *Pages) refusals(ctx context.Context, v *visit) *refused {
	p.denials.mu.Lock()
	last := p.denials.all[v.who.Tenant]
	p.denials.mu.Unlock()
	if last != nil && v.now.Sub(last.at) < refusedEvery {
		return last
	}
	r := &refused{at: v.now, hours: make([]int64, refusedHours), limits: map[string]reserve.RefusedBy{}}
	hour := v.windows.UTC().Truncate(time.Hour)
	from := hour.Add(-(refusedHours - 1) * time.Hour)
	for i, l := range p.Service.Catalog(v.who.Tenant).Limits() {
		if i == maxRows {
			break
		}
		rows, _, err := p.Service.History(ctx, reserve.HistoryQuery{Tenant: v.who.Tenant, Limit: l.ID, From: from, To: hour.Add(time.Hour), Max: refusedHours + 1})
		if err != nil {
			continue
		}
		now := int64(0)
		for _, row := range rows {
			n := int(row.From.Sub(from) / time.Hour)
			if n >= 0 && n < refusedHours {
				r.hours[n] += row.Refused
			}
			if n >= refusedHours-2 {
				now += row.Refused
			}
		}
		if now == 0 {
			continue
		}
		r.lately += now
		by := reserve.RefusedBy{}
		if l.Share == limits.Each {
			if by, err = p.Service.Refused(ctx, v.who.Tenant, l.ID, hour.Add(-time.Hour), hour.Add(time.Hour)); err != nil {
				by = reserve.RefusedBy{}
			}
		}
		by.All = now
		r.limits[l.ID] = by
	}
	p.denials.mu.Lock()
	defer p.denials.mu.Unlock()
	if len(p.denials.all) >= mostTenants {
		clear(p.denials.all)
	}
	p.denials.all[v.who.Tenant] = r
	return r
}

// sparks are numbers as characters of rising height.
func sparks(ns []int64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	most := slices.Max(ns)
	if most == 0 {
		return ""
	}
	var b strings.Builder
	for _, n := range ns {
		b.WriteRune(levels[(n*int64(len(levels)-1)+most-1)/most])
	}
	return b.String()
}
