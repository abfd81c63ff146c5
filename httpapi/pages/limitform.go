package pages

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/web"
	"github.com/holdfast-dev/holdfast/windows"
)

// editBody is the form of a limit, new or there already.
type editBody struct {
	Path, Back, Heading, Seen, Sentence, YAML string
	New                                       bool
	Locked                                    string // why the window cannot change
	F                                         map[string]string
	Windows, Shares, Expiries, Overages       []option
	Rolling, Enabled                          bool
	Versions                                  []version
	Faults                                    []string
}

// limitFields are what the form has, by the API's names, in its order.
var limitFields = []string{
	"id", "name", "description", "subjectKind", "action", "amount", "window", "rolling", "refillPerSecond", "share", "onExpiry", "overage",
	"ttlSeconds", "maxTtlSeconds", "enabled", "labels",
}

// fieldsOf is a limit as its form has it.
func fieldsOf(l *limits.Limit) map[string]string {
	f := map[string]string{
		"id": l.ID, "name": l.Name, "description": l.Description, "subjectKind": l.SubjectKind, "action": string(l.Action),
		"amount": strconv.FormatInt(l.Amount, 10), "window": l.Window.Kind.String(), "share": l.Share.String(), "onExpiry": l.OnExpiry.String(),
		"overage": l.Overage.String(), "ttlSeconds": strconv.FormatInt(int64(l.TTL/time.Second), 10),
		"maxTtlSeconds": strconv.FormatInt(int64(l.MaxTTL/time.Second), 10), "labels": labelLines(l.Labels),
	}
	if l.Window.Rolling {
		f["rolling"] = "yes"
	}
	if l.Enabled {
		f["enabled"] = "yes"
	}
	if l.Window.Kind == windows.Bucket {
		f["refillPerSecond"] = strconv.FormatFloat(limits.RefillFloat(l.Window.Refill), 'g', -1, 64)
	}
	return f
}

func labelLines(labels map[string]string) string {
	lines := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		lines = append(lines, key+"="+labels[key])
	}
	return strings.Join(lines, "\n")
}

// fresh are the fields of a limit that nobody has made yet.
func freshFields() map[string]string {
	return map[string]string{"subjectKind": "user", "amount": "1", "window": "concurrent", "share": "each", "onExpiry": "refund", "overage": "record", "enabled": "yes"}
}

// filled are the fields as somebody filled them in; ok is false when nobody has.
func filled(values url.Values) (f map[string]string, ok bool) {
	if !values.Has("name") {
		return nil, false
	}
	f = map[string]string{}
	for _, name := range limitFields {
		f[name] = strings.TrimSpace(values.Get(name))
	}
	return f, true
}

// inputOf is what a form describes, as the API takes it. Errors: *formFault, all at once.
func inputOf(f map[string]string) (*api.LimitInput, error) {
	var faults []string
	whole := func(name string) *int64 {
		if f[name] == "" {
			return nil
		}
		n, err := strconv.ParseInt(f[name], 10, 64)
		if err != nil {
			faults = append(faults, name+" must be a whole number")
		}
		return &n
	}
	enabled := f["enabled"] != ""
	in := &api.LimitInput{
		ID: f["id"], Name: f["name"], Description: f["description"], SubjectKind: f["subjectKind"], Action: f["action"],
		Window: f["window"], Rolling: f["rolling"] != "", Share: f["share"], OnExpiry: f["onExpiry"], Overage: f["overage"],
		TTLSeconds: whole("ttlSeconds"), MaxTTLSeconds: whole("maxTtlSeconds"), Enabled: &enabled,
	}
	if amount := whole("amount"); amount != nil {
		in.Amount = *amount
	} else {
		faults = append(faults, "amount must be given")
	}
	if text := f["refillPerSecond"]; text != "" && in.Window == windows.Bucket.String() {
		refill, err := strconv.ParseFloat(text, 64)
		if err != nil {
			faults = append(faults, "refillPerSecond must be a number")
		}
		in.RefillPerSecond = &refill
	}
	for line := range strings.Lines(f["labels"]) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "" && !found:
		case !found:
			faults = append(faults, "labels are written key=value, one a line")
		default:
			if in.Labels == nil {
				in.Labels = map[string]string{}
			}
			in.Labels[key] = value
		}
	}
	if len(faults) > 0 {
		return nil, wrong(faults...)
	}
	return in, nil
}

// limitForm shows the form, filled in from the address for a preview, from a form that was
// refused, or from the limit.
func (p *Pages) limitForm(_ context.Context, v *visit) (web.View, error) {
	b := editBody{Path: p.Prefix + "/limits/new", Back: p.Prefix + "/limits", Heading: "New limit", New: true, F: freshFields(), Faults: v.faults}
	var old *limits.Limit
	if v.r.PathValue("id") != "" {
		var err error
		if old, err = p.theLimit(v); err != nil {
			return web.View{}, err
		}
		b.Path, b.Back = p.Prefix+limitPath(old.ID)+"/edit", p.Prefix+limitPath(old.ID)
		b.Heading, b.New, b.Seen, b.F = "Edit "+old.ID, false, revision(old), fieldsOf(old)
	}
	values := v.r.URL.Query()
	if v.r.Method == http.MethodPost {
		values = v.r.PostForm
	}
	f, given := filled(values)
	if given {
		b.F = f
	}
	if old != nil {
		b.F["id"], b.F["share"] = old.ID, old.Share.String()
		if v.refusal == http.StatusPreconditionFailed {
			b.Versions = versions(fieldsOf(old), b.F)
		}
	}
	p.describe(v, &b, given)
	return web.View{Page: "edit", Title: b.Heading, Section: "limits", Body: b, Still: true}, nil
}

// describe fills in what a form says of itself.
func (p *Pages) describe(v *visit, b *editBody, given bool) {
	in, err := inputOf(b.F)
	if err == nil {
		var l limits.Limit
		if l, err = p.LimitOf(in); err == nil {
			b.Sentence, b.YAML = upper(limitWords(&l)), yamlOf(b.F)
		}
	}
	if err != nil && given && v.r.Method == http.MethodGet { // a preview
		_, _ = v.refused(p, err)
		b.Faults = v.faults
	}
	kinds := []windows.Kind{windows.Concurrent, windows.Second, windows.Minute, windows.Hour, windows.Day, windows.Week, windows.Month, windows.Total, windows.Bucket}
	if !b.New {
		switch b.F["window"] {
		case windows.Concurrent.String(), windows.Bucket.String():
			kinds = slices.DeleteFunc(kinds, func(k windows.Kind) bool { return k.String() != b.F["window"] })
			b.Locked = "The window is fixed: what is counted under it could not be judged by another kind. Make another limit."
		default:
			kinds = slices.DeleteFunc(kinds, func(k windows.Kind) bool { return k == windows.Concurrent || k == windows.Bucket })
			b.Locked = "Another window makes the counts start anew. It cannot become concurrent or bucket: make another limit."
		}
	}
	for _, k := range kinds {
		b.Windows = append(b.Windows, option{k.String(), windowTitle(k), k.String() == b.F["window"]})
	}
	choose := func(name string, pairs ...string) (all []option) {
		for i := 0; i+1 < len(pairs); i += 2 {
			all = append(all, option{pairs[i], pairs[i+1], b.F[name] == pairs[i]})
		}
		return all
	}
	b.Shares = choose("share", "each", "each subject has its own count", "all", "one count for all")
	b.Expiries = choose("onExpiry", "refund", "refunded", "charge", "kept")
	b.Overages = choose("overage", "record", "charged past the amount", "reject", "refused")
	b.Rolling, b.Enabled = b.F["rolling"] != "", b.F["enabled"] != ""
}

func windowTitle(k windows.Kind) string {
	switch k {
	case windows.Concurrent:
		return "at once (concurrent)"
	case windows.Bucket:
		return "bucket, refilled steadily"
	case windows.Total:
		return "for ever (total)"
	default:
		return "a " + k.String()
	}
}

// versions are the fields that two versions differ in.
func versions(now, yours map[string]string) (all []version) {
	for _, name := range limitFields {
		if now[name] != yours[name] {
			all = append(all, version{name, now[name], yours[name]})
		}
	}
	return all
}

// yamlOf is the entry of a limits file that makes the same limit: flow style, in which JSON's
// text and numbers are YAML's.
func yamlOf(f map[string]string) string {
	var parts []string
	for _, name := range limitFields {
		value := f[name]
		switch name {
		case "rolling":
			if value == "" {
				continue
			}
			value = "true"
		case "enabled":
			if value != "" {
				continue
			}
			value = "false"
		case "labels":
			continue
		case "amount", "ttlSeconds", "maxTtlSeconds", "refillPerSecond":
			if value == "" {
				continue
			}
		default:
			if value == "" {
				continue
			}
			encoded, err := json.Marshal(value)
			if err != nil {
				continue // text always encodes
			}
			value = string(encoded)
		}
		parts = append(parts, name+": "+value)
	}
	return "- {" + strings.Join(parts, ", ") + "}"
}

// createLimit makes a limit of the form.
func (p *Pages) createLimit(ctx context.Context, v *visit) (string, error) {
	l, err := p.limitIn(v)
	if err != nil {
		return "", err
	}
	l.Source = sourcePage
	made, rev, err := p.edits(v, v.form("reason")).Create(ctx, v.who.Tenant, l, v.by())
	return limitPath(made.ID) + "?done=created", p.reached(ctx, rev, err)
}

func (p *Pages) limitIn(v *visit) (limits.Limit, error) {
	f, ok := filled(v.r.PostForm)
	if !ok {
		return limits.Limit{}, wrong("name must be given")
	}
	if id := v.r.PathValue("id"); id != "" {
		f["id"] = id
	}
	in, err := inputOf(f)
	if err != nil {
		return limits.Limit{}, err
	}
	return p.LimitOf(in)
}

// editLimit makes of the limit what the form has; what the form has not stays.
func (p *Pages) editLimit(ctx context.Context, v *visit) (string, error) {
	asked, err := p.limitIn(v)
	if err != nil {
		return "", err
	}
	to, err := p.changeLimit(ctx, v, v.form("reason"), func(l *limits.Limit) {
		l.Name, l.Description, l.SubjectKind, l.Action = asked.Name, asked.Description, asked.SubjectKind, asked.Action
		l.Amount, l.Window, l.OnExpiry, l.Overage = asked.Amount, asked.Window, asked.OnExpiry, asked.Overage
		l.TTL, l.MaxTTL, l.Enabled, l.Labels = asked.TTL, asked.MaxTTL, asked.Enabled, asked.Labels
	})
	return to + "?done=changed", err
}
