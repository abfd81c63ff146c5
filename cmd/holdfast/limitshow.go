package main

import (
	"net/url"
	"strconv"

	"github.com/holdfast-dev/holdfast/api"
)

func limitPath(id string) string { return "/v1/limits/" + url.PathEscape(id) }

func limitIDs(all []api.Limit) []string {
	ids := make([]string, len(all))
	for i, l := range all {
		ids[i] = l.ID
	}
	return ids
}

func (a *app) emitLimit(l api.Limit) error {
	return a.emit(l, func() string { return limitTable([]api.Limit{l}).render("") }, func() []string { return []string{l.ID} })
}

func limitTable(all []api.Limit) *table {
	t := newTable("LIMIT", "SUBJECT", "ACTION", "AMOUNT", "WINDOW", "SHARE", "STATE", "NAME")
	for _, l := range all {
		window := windowWords(l.Window, l.Rolling)
		if l.RefillPerSecond != nil {
			window += " " + strconv.FormatFloat(*l.RefillPerSecond, 'g', -1, 64) + "/s"
		}
		t.row(l.ID, l.SubjectKind, l.Action, inForce(l), window, l.Share, limitState(l), l.Name)
	}
	return t
}

// inForce is the amount of a limit, and the one that an override or a schedule puts in its
// place for all.
func inForce(l api.Limit) string {
	switch {
	case l.Override == nil && l.Scheduled != nil && l.Scheduled.Amount != l.Amount:
		return number(l.Amount) + " → " + number(l.Scheduled.Amount)
	case l.Override == nil:
		return number(l.Amount)
	}
	return number(l.Amount) + " → " + orUnlimited(l.Override.Amount)
}

func limitState(l api.Limit) string {
	state := ownState(l)
	if l.Override == nil {
		return state
	}
	if l.Override.Until == nil {
		return state + ", by override without end"
	}
	return state + ", by override until " + l.Override.Until.UTC().Format("2006-01-02 15:04:05Z")
}

func ownState(l api.Limit) string {
	switch {
	case !l.Enabled:
		return "off"
	case l.Paused && l.PausedUntil != nil:
		return "paused until " + l.PausedUntil.UTC().Format("2006-01-02 15:04:05Z")
	case l.Paused:
		return "paused"
	case !l.Enforce:
		return "shadow"
	case len(l.NextChanges) > 0:
		next := l.NextChanges[0]
		return "on, " + number(next.Amount) + " from " + next.At.UTC().Format("2006-01-02 15:04Z")
	default:
		return "on"
	}
}
