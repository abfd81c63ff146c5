package limits

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/windows"
)

// WithDefaults fills in what may be left out: the id from the name, the TTLs (a default TTL
// is never above a given MaxTTL). A pause's reason and end go with the pause. Enabled is the
// caller's. A name that makes no id leaves the id empty, for Validate to tell.
func (l Limit) WithDefaults() Limit {
	if l.ID == "" {
		l.ID, _ = Slug(l.Name)
	}
	if l.MaxTTL == 0 {
		l.MaxTTL = DefaultMaxTTL
	}
	if l.TTL == 0 {
		l.TTL = min(DefaultTTL, l.MaxTTL)
	}
	if !l.Paused {
		l.PauseReason, l.PausedUntil = "", time.Time{}
	}
	return l
}

// Validate checks every bound of API.md section 3, all at once.
// Errors: *InvalidError, its fields spelt as on the wire.
func (l Limit) Validate() error {
	var f faults
	f.need(isLimitID(l.ID), "/id", "must match [a-z0-9][a-z0-9._-]{0,62}")
	f.text("/name", l.Name, 1, MaxName, "")
	f.text("/description", l.Description, 0, MaxDescription, "\n\t")
	f.need(l.SubjectKind == Any || isKind(l.SubjectKind), "/subjectKind", kindReason+", or be *")
	if reason := textFault(string(l.Action), MaxAction); reason != "" {
		f.add("/action", reason)
	}
	f.need(l.Amount >= 0 && l.Amount <= MaxAmount, "/amount", "must be 0 to 1000000000")
	f.window(l.Window, l.Amount)
	f.need(l.Share <= All, "/share", "must be each or all")
	f.need(l.OnExpiry <= ChargeOnExpiry, "/onExpiry", "must be refund or charge")
	f.need(l.Overage <= RejectOverage, "/overage", "must be record or reject")
	f.ttl("/ttlSeconds", l.TTL)
	f.ttl("/maxTtlSeconds", l.MaxTTL)
	f.need(l.TTL <= l.MaxTTL || !isTTL(l.TTL) || !isTTL(l.MaxTTL), "/ttlSeconds", "must not be above maxTtlSeconds")
	f.reason("/pauseReason", l.PauseReason)
	f.labels(l.Labels)
	f.schedules(&l)
	return f.err()
}

// Validate checks the bounds of an override: its amount, whom it is for, its reason.
// Errors: *InvalidError, with fields "/amount", "/subject/kind", "/subject/id", "/reason".
func (o Override) Validate() error {
	var f faults
	if !o.Subject.IsZero() {
		f.under("/subject", o.Subject.Validate())
	}
	f.need(o.Unlimited || o.Amount >= 0 && o.Amount <= MaxAmount, "/amount", "must be 0 to 1000000000, or null for unlimited")
	f.reason("/reason", o.Reason)
	return f.err()
}

func (f *faults) window(w windows.Window, amount int64) {
	f.need(w.Kind >= windows.Second && w.Kind <= windows.Bucket, "/window", "is not a window")
	rolls := w.Kind == windows.Minute || w.Kind == windows.Hour || w.Kind == windows.Day
	f.need(rolls || !w.Rolling, "/rolling", "is only for minute, hour and day")
	switch {
	case w.Kind != windows.Bucket:
		f.need(w.Refill == 0, "/refillPerSecond", "is only for bucket")
	case w.Refill < 1 || w.Refill > MaxRefill*windows.NanoUnit:
		f.add("/refillPerSecond", refillReason)
	case amount >= 0 && amount <= MaxAmount && !refillsInTime(amount, w.Refill):
		f.add("/refillPerSecond", "is too slow: the bucket must refill within 10 years")
	}
}

func isTTL(d time.Duration) bool { return d >= MinTTL && d <= MaxTTLBound && d%time.Second == 0 }

func (f *faults) ttl(field string, d time.Duration) {
	f.need(isTTL(d), field, "must be 2 to 3600 whole seconds")
}

// text checks a length in characters, and that no control characters are there but those of
// except.
func (f *faults) text(field, s string, least, most int, except string) {
	n := utf8.RuneCountInString(s)
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(except, r) }
	switch {
	case n > most && least == 0:
		f.add(field, fmt.Sprintf("must be at most %d characters", most))
	case n < least || n > most:
		f.add(field, fmt.Sprintf("must be %d to %d characters", least, most))
	case !utf8.ValidString(s):
		f.add(field, "must be valid UTF-8")
	case strings.IndexFunc(s, control) >= 0:
		f.add(field, "must not hold control characters")
	}
}

func (f *faults) reason(field, s string) {
	if s == "" {
		return
	}
	if reason := textFault(s, MaxReason); reason != "" {
		f.add(field, reason)
	}
}

func (f *faults) labels(labels map[string]string) {
	f.under("", CheckLabels(labels))
}

// under adds the faults of err below prefix.
func (f *faults) under(prefix string, err error) {
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		for _, one := range invalid.Faults {
			f.add(prefix+one.Field, one.Reason)
		}
	}
}

// CheckLabels checks labels, of a limit or of a reservation: up to MaxLabels, keys of 1 to
// MaxLabelKey bytes, values of up to MaxLabelValue, valid UTF-8, no control characters.
// Errors: *InvalidError, with fields such as "/labels/job".
func CheckLabels(labels map[string]string) error {
	var f faults
	f.need(len(labels) <= MaxLabels, "/labels", fmt.Sprintf("must be at most %d", MaxLabels))
	if len(labels) > MaxLabels { // one fault says it; thousands would not say more
		return f.err()
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if reason := textFault(key, MaxLabelKey); reason != "" {
			f.add("/labels/"+escape(key), "name "+reason)
		}
		if value := labels[key]; value != "" {
			if reason := textFault(value, MaxLabelValue); reason != "" {
				f.add("/labels/"+escape(key), reason)
			}
		}
	}
	return f.err()
}

// escape makes key one segment of a JSON pointer (RFC 6901), printable and of bounded length.
func escape(key string) string {
	if len(key) > MaxLabelKey {
		key = key[:MaxLabelKey] + "…"
	}
	key = strings.ToValidUTF8(key, "\uFFFD")
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}
