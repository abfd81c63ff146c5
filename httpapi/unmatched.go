package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// unmatchedError is reserve.NoLimitError with what was asked for and what comes near.
type unmatchedError struct {
	action, kind string
	kinds        []string // whose limits do count the action
	near         []string // actions counted for the kind, a slip of the fingers away
}

func (e *unmatchedError) Error() string { return "no limit counts " + e.action + " for " + e.kind }

// unmatched explains a reserve.NoLimitError; any other error stays as it is.
// Cost: a look at every limit of the tenant.
func (s *server) unmatched(err error, r *reserve.Request) error {
	none, ok := errors.AsType[*reserve.NoLimitError](err)
	if !ok {
		return err
	}
	e := &unmatchedError{action: string(r.Action), kind: r.Subject.Kind}
	for _, l := range s.Service.Catalog(r.Tenant).Limits() {
		switch {
		case !l.Enabled:
		case l.SubjectKind != limits.Any && l.SubjectKind != e.kind:
			if (l.Action == r.Action || l.Action == limits.Any) && !slices.Contains(e.kinds, l.SubjectKind) && len(e.kinds) < maxNear {
				e.kinds = append(e.kinds, l.SubjectKind)
			}
		case slices.Contains(none.Nearest, string(l.Action)) && slip(e.action, string(l.Action)) && !slices.Contains(e.near, string(l.Action)):
			e.near = append(e.near, string(l.Action))
		}
	}
	return e
}

// maxNear bounds the kinds and actions an answer names.
const maxNear = 3

// unmatchedProblem names the kind when the kind is what is wrong, else the actions that come
// near.
func unmatchedProblem(e *unmatchedError) api.Problem {
	detail := fmt.Sprintf("No limit counts the action %q for subjects of kind %s", e.action, e.kind)
	switch {
	case len(e.kinds) > 0:
		detail += "; it is counted for kind " + strings.Join(e.kinds, ", ") + "."
	case len(e.near) > 0:
		detail += "; near it: " + strings.Join(e.near, ", ") + "."
	default:
		detail += "."
	}
	p := api.NewProblem(api.NoMatchingLimit, detail)
	if len(e.kinds) == 0 {
		p.Actions = e.near
	}
	return p
}

// slip reports whether b is a typing mistake away from a: at most two bytes, or a third of
// them, inserted, dropped or exchanged, but not all of them.
func slip(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	d := limits.EditDistance(a, b)
	return d <= max(2, len(a)/3) && d < min(len(a), len(b))
}
