package pages

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/windows"
)

// shortID is an id as people tell holds apart: its last characters.
func shortID(id string) string { return "rsv_…" + lastOf(id) }

// lastOf is what is typed to confirm.
func lastOf(id string) string { return id[len(id)-confirmed:] }

// confirmed is how many characters of an id are typed to confirm an act.
const confirmed = 4

// Paths within the pages, without the prefix.
func holdPath(id string) string  { return "/holds/" + url.PathEscape(id) }
func limitPath(id string) string { return "/limits/" + url.PathEscape(id) }
func subjectPath(s limits.Subject) string {
	return "/subjects/" + url.PathEscape(s.Kind) + "/" + url.PathEscape(s.ID)
}

func query(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// scopeSubject reads a scope; ok is false for the one shared by all.
func scopeSubject(scope string) (s limits.Subject, ok bool) {
	kind, id, found := strings.Cut(scope, "/")
	return limits.Subject{Kind: kind, ID: id}, found
}

// forCell is whose count a scope is.
func (p *Pages) forCell(scope string) web.Cell {
	s, ok := scopeSubject(scope)
	if !ok {
		return web.Cell{Text: "all"}
	}
	return p.subjectCell(s)
}

func (p *Pages) subjectCell(s limits.Subject) web.Cell {
	return web.Cell{Text: s.String(), Href: p.Prefix + subjectPath(s)}
}

// ownerWords is who works under a hold: name@host.
func ownerWords(o reserve.Owner) string {
	switch {
	case o.Host == "":
		return o.Name
	case o.Name == "":
		return "@" + o.Host
	}
	return o.Name + "@" + o.Host
}

// ownerCell leads to where the owner says it can be looked at, if that is a web address.
func ownerCell(o reserve.Owner) web.Cell {
	c := web.Cell{Text: ownerWords(o)}
	if u, err := url.Parse(o.URL); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		c.Href = o.URL
		if c.Text == "" {
			c.Text = u.Host
		}
	}
	return c
}

func hostWords(o reserve.Owner) string {
	if o.PID == 0 {
		return o.Host
	}
	return strings.TrimPrefix(o.Host+"/", "/") + strconv.FormatInt(o.PID, 10)
}

// beatCell is the last heartbeat, or what its lack means.
func beatCell(r *reserve.Reservation, now time.Time) web.Cell {
	if r.Beats == 0 {
		return web.Cell{Text: "none yet", Level: web.Faint}
	}
	return web.Ago(r.LastBeat, now)
}

// placeWords are the limits a reservation occupies or is charged to.
func placeWords(r *reserve.Reservation) string {
	var words []string
	for _, at := range r.Places {
		words = append(words, at.Limit+"/"+strconv.FormatInt(at.N, 10))
	}
	for _, c := range r.Charges {
		words = append(words, c.Limit)
	}
	return strings.Join(words, ", ")
}

func labelWords(labels map[string]string) string {
	words := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, key+"="+labels[key])
	}
	return strings.Join(words, " ")
}

// windowWords says how much a limit allows: at most 3 at once for each user doing "export".
func limitWords(l *limits.Limit) string {
	whom := " in all"
	if l.Share == limits.Each {
		whom = " for each " + l.SubjectKind
		if l.SubjectKind == limits.Any {
			whom = " for each subject"
		}
	} else if l.SubjectKind != limits.Any {
		whom = " for all of kind " + l.SubjectKind + " together"
	}
	doing := ""
	if l.Action != limits.Any {
		doing = `, action "` + string(l.Action) + `"`
	}
	return "at most " + amountWords(l.Amount, l.Window) + whom + doing
}

func amountWords(amount int64, w windows.Window) string {
	n := strconv.FormatInt(amount, 10)
	roll := ""
	if w.Rolling {
		roll = "rolling "
	}
	switch w.Kind {
	case windows.Concurrent:
		return n + " at once"
	case windows.Bucket:
		return n + " in a burst, refilled at " + strconv.FormatFloat(limits.RefillFloat(w.Refill), 'g', -1, 64) + " a second"
	case windows.Total:
		return n + " for ever"
	case windows.Hour:
		if roll == "" {
			return n + " an hour"
		}
	default:
	}
	return n + " a " + roll + w.Kind.String()
}

// meterCell is use of an amount.
func meterCell(used int64, rule limits.Rule) web.Cell {
	if rule.Unlimited {
		return web.Cell{Text: fmt.Sprintf("%d / unlimited", used)}
	}
	c := web.Cell{Text: fmt.Sprintf("%d / %d", used, rule.Amount), Value: min(used, max(1, rule.Amount)), Max: max(1, rule.Amount)}
	if rule.Amount == 0 {
		c.Value = 0
	}
	if rule.Override != nil && rule.Amount != rule.Limit.Amount {
		c.Text += fmt.Sprintf(" (%d by override)", rule.Limit.Amount)
	}
	return c
}

// stateWords is how a reservation stands, and how to show it.
func stateWords(s reserve.State) (string, web.Level) {
	switch s {
	case reserve.Held:
		return "held", web.Good
	case reserve.Expired:
		return "expired", web.Warn
	case reserve.Forced:
		return "released by force", web.Bad
	default:
		return s.String(), web.Plain
	}
}

// principalWords is an identity as people read it: kind:sub.
func principalWords(id string) string {
	kind, rest, ok := strings.Cut(id, ":")
	length, rest, found := strings.Cut(rest, ":")
	n, err := strconv.Atoi(length)
	if !ok || !found || err != nil || n < 0 || n >= len(rest) || rest[n] != ':' {
		return id
	}
	return kind + rest[n:]
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
