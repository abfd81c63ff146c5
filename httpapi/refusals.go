package httpapi

import (
	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/reserve"
)

// refusalCode is the code that a remembered refusal was answered with.
func refusalCode(r *reserve.Refusal) api.Code {
	switch {
	case r.LineFull:
		return api.LineFull
	case r.Limit == "":
		return api.SubjectBlocked
	}
	switch r.Why {
	case reserve.NeverFits:
		return api.NeverFits
	case reserve.Paused:
		return api.LimitPaused
	case reserve.NoSlot:
		return api.NoFreeSlot
	case reserve.Fits, reserve.UsedUp:
	}
	return api.QuotaExceeded
}

func refusalViews(all []reserve.Refusal) []api.Refusal {
	out := make([]api.Refusal, len(all))
	for i := range all {
		r := &all[i]
		out[i] = api.Refusal{At: api.At(r.At), Action: string(r.Action), Limit: r.Limit, Code: refusalCode(r), Cost: r.Cost, Count: r.Count}
	}
	return out
}
