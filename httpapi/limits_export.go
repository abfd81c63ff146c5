package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
)

// exportFile answers GET /v1/limits-file: every limit and plan, as a file that changes nothing
// when it is applied.
//
// Access: limits:read.
func (s *server) exportFile(_ context.Context, c *call) (int, any, error) {
	cat := s.Service.Catalog(c.who.Tenant)
	out := api.LimitsFile{Limits: []api.LimitInput{}}
	for _, l := range cat.Limits() {
		out.Limits = append(out.Limits, exported(l))
	}
	if f := cat.File(); f != nil && len(f.Plans) > 0 {
		out.Plans = make(map[string]map[string]api.PlanAmount, len(f.Plans))
		for name, plan := range f.Plans {
			out.Plans[name] = amountsView(plan, cat)
		}
	}
	c.fileTag(cat.Revision())
	c.out["Vary"] = []string{"Accept"}
	if !wantsYAML(c.req.Header) {
		return http.StatusOK, out, nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return 0, nil, err
	}
	c.out["Content-Type"] = []string{yamlType}
	return http.StatusOK, rawAnswer(appendYAML(nil, text)), nil
}

// wantsYAML reports whether YAML is asked for; without a wish it is JSON.
func wantsYAML(h http.Header) bool {
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			kind, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case yamlType:
				return true
			case jsonType[0]:
				return false
			}
		}
	}
	return false
}

// amountsView is what a plan grants, under limits that are there.
func amountsView(p limits.Plan, cat *limits.Catalog) map[string]api.PlanAmount {
	out := make(map[string]api.PlanAmount, len(p))
	for id, a := range p {
		if _, there := cat.Limit(id); !there {
			continue // deleted since; a file that named it would be refused
		}
		out[id] = api.PlanAmount{Amount: nullableAmount(a)}
	}
	return out
}

func nullableAmount(a limits.PlanAmount) api.Nullable[int64] {
	if a.Unlimited {
		return api.Null[int64]()
	}
	return api.Val(a.Amount)
}

// exported is a limit as a file has it: what has its default is left out.
func exported(l *limits.Limit) api.LimitInput {
	v := limitView(l)
	in := api.LimitInput{
		ID: v.ID, Name: v.Name, Description: v.Description, SubjectKind: v.SubjectKind, Action: v.Action,
		Amount: v.Amount, Window: v.Window, Rolling: v.Rolling, RefillPerSecond: v.RefillPerSecond,
		Paused: v.Paused, PauseReason: v.PauseReason, PausedUntil: v.PausedUntil,
	}
	if len(l.Labels) > 0 {
		in.Labels = l.Labels
	}
	if l.Share != limits.Each {
		in.Share = v.Share
	}
	if l.OnExpiry != limits.RefundOnExpiry {
		in.OnExpiry = v.OnExpiry
	}
	if l.Overage != limits.RecordOverage {
		in.Overage = v.Overage
	}
	bare := limits.Limit{MaxTTL: l.MaxTTL}.WithDefaults()
	if l.MaxTTL != limits.DefaultMaxTTL {
		in.MaxTTLSeconds = &v.MaxTTLSeconds
	}
	if l.TTL != bare.TTL {
		in.TTLSeconds = &v.TTLSeconds
	}
	if !l.Enabled {
		in.Enabled = &v.Enabled
	}
	if l.Shadow {
		in.Enforce = &v.Enforce
	}
	in.Schedules = v.Schedules
	return in
}
