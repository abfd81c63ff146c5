package httpapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
)

// Bounds of a page, in entries.
const (
	defaultPage = 50
	maxPage     = 500
)

var (
	pageOnly           = []string{"pageSize", "cursor"}
	pruneOnly          = []string{"prune"}
	eventFilters       = []string{"type", "limit", "subject"}
	usageFilters       = []string{"limit", "pageSize", "cursor"}
	reservationFilters = []string{"limit", "subject", "action", "owner", "host", "state", "sort", "pageSize", "cursor"}
)

// query is the parameters of a request, each at most once and each known to its route.
type query map[string]string

// readQuery refuses what a route does not know: a misspelt filter must not mean "no filter".
// Open routes have nothing to filter, and monitors hang what they like onto them; there, what
// is not known is passed over.
func readQuery(raw string, known []string, open bool) (query, error) {
	if raw == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil && !open {
		return nil, badQuery("", "The query string cannot be read.")
	}
	q := make(query, len(values))
	for name, all := range values {
		switch {
		case slices.Contains(known, name) && len(all) == 1:
			q[name] = all[0]
		case open:
		case len(all) > 1:
			return nil, badQuery(name, "The parameter is there more than once.")
		default:
			return nil, badQuery(name, unknownParameter(known))
		}
	}
	return q, nil
}

func unknownParameter(known []string) string {
	if len(known) == 0 {
		return "The parameter is not known here; this route has none."
	}
	return "The parameter is not known here; this route has " + strings.Join(known, ", ") + "."
}

func badQuery(name, detail string) *wireError {
	if len(name) > maxRequestID {
		name = name[:maxRequestID]
	}
	return &wireError{code: api.InvalidQuery, parameter: strings.ToValidUTF8(name, "\uFFFD"), detail: detail}
}

// truth is a parameter that is true or false; left out it is false.
func (q query) truth(name string) (bool, error) {
	switch text, there := q[name]; {
	case !there || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, badQuery(name, "The parameter must be true or false.")
}

// pageSize is how many entries a page may have.
func (q query) pageSize() (int, error) {
	text, there := q["pageSize"]
	if !there {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPage || strconv.Itoa(n) != text {
		return 0, badQuery("pageSize", "The page size must be a whole number from 1 to 500.")
	}
	return n, nil
}

// filter is the parameters that say what is listed, in one spelling, for a cursor to be bound to.
func (q query) filter() string {
	v := make(url.Values, len(q))
	for name, value := range q {
		if name != "cursor" && name != "pageSize" {
			v[name] = []string{value}
		}
	}
	return v.Encode()
}

var states = map[string]reserve.State{
	api.StateHeld: reserve.Held, api.StateCommitted: reserve.Committed, api.StateReleased: reserve.Released,
	api.StateExpired: reserve.Expired, api.StateForced: reserve.Forced,
}

var orders = map[string]reserve.Order{
	"": reserve.Oldest, "oldest": reserve.Oldest, "expiring": reserve.Expiring, "newest": reserve.Newest,
}

// reservations is the filter of a list of reservations.
func (q query) reservations() (f reserve.Query, err error) {
	if text, there := q["subject"]; there {
		if f.Subject, err = limits.ParseSubject(text); err != nil {
			return f, badQuery("subject", "A subject is written kind:id, such as user:u_42.")
		}
	}
	if text, there := q["state"]; there {
		state, ok := states[text]
		if !ok {
			return f, badQuery("state", "The state must be held, committed, released, expired or forced.")
		}
		f.States = []reserve.State{state}
	}
	order, ok := orders[q["sort"]]
	if _, there := q["sort"]; !ok || there && q["sort"] == "" {
		return f, badQuery("sort", "The order must be oldest, expiring or newest.")
	}
	for _, name := range [...]string{"limit", "action", "owner", "host"} {
		if text, there := q[name]; there && (text == "" || len(text) > limits.MaxAction || !printable(text)) {
			return f, badQuery(name, "The filter must be 1 to 128 bytes of readable text.")
		}
	}
	f.Limit, f.Action, f.Owner, f.Host, f.Sort = q["limit"], limits.Action(q["action"]), q["owner"], q["host"], order
	return f, nil
}
