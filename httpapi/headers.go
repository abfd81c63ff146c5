package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// maxSFInteger is the greatest integer of a structured field (RFC 9651 section 3.3.1). An
// unlimited amount is told as this.
const maxSFInteger = 999_999_999_999_999

// secondsUp is a time to wait in whole seconds: rounded up, at least 1, so that whoever waits
// that long has waited long enough.
func secondsUp(d time.Duration) int64 {
	return max(1, int64((d+time.Second-1)/time.Second))
}

// secondsDown is a time left in whole seconds: rounded down, never below 0.
func secondsDown(d time.Duration) int64 { return max(0, int64(d/time.Second)) }

// millisUp is a time to wait in milliseconds, rounded up, at least 1.
func millisUp(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}

// setRateLimit writes RateLimit-Policy and RateLimit (IETF draft, structured fields): one item
// for each matching limit in both, but for those in shadow: whoever keeps to the header would be
// held back by them. Without a limit there is nothing to tell.
func setRateLimit(h http.Header, d *reserve.Decision) {
	policy := make([]byte, 0, 48*len(d.Verdicts))
	state := make([]byte, 0, 32*len(d.Verdicts))
	for i := range d.Verdicts {
		if d.Verdicts[i].Shadow {
			continue
		}
		if len(policy) > 0 {
			policy, state = append(policy, ", "...), append(state, ", "...)
		}
		policy = appendPolicy(policy, &d.Verdicts[i], d.At)
		state = appendState(state, d, &d.Verdicts[i])
	}
	if len(policy) == 0 {
		return
	}
	h["Ratelimit-Policy"] = []string{string(policy)}
	h["Ratelimit"] = []string{string(state)}
}

// appendPolicy appends what a limit allows: q units in w seconds, or q at once.
func appendPolicy(dst []byte, v *reserve.Verdict, now time.Time) []byte {
	dst = appendSFString(dst, v.Rule.ID)
	dst = appendSFInteger(append(dst, ";q="...), v.Rule.Amount)
	if v.Rule.Window.Kind == windows.Concurrent {
		return append(dst, `;qu="concurrent-requests"`...)
	}
	if w := v.Rule.Window.Seconds(now); w > 0 {
		dst = appendSFInteger(append(dst, ";w="...), w)
	}
	return dst
}

// appendState appends what is left of a limit, and t where there is something to wait for:
// on a refusal until the cost would fit, else until the present use has left. A limit that
// does not refuse tells no t on a refusal, so that Retry-After is never before a t.
func appendState(dst []byte, d *reserve.Decision, v *reserve.Verdict) []byte {
	left, until := v.Remaining, v.RetryAt
	if v.Why == reserve.Paused {
		left = 0
	}
	if d.Allowed {
		until = v.ResetsAt
	}
	dst = appendSFString(dst, v.Rule.ID)
	dst = appendSFInteger(append(dst, ";r="...), left)
	if !until.IsZero() {
		dst = appendSFInteger(append(dst, ";t="...), secondsUp(until.Sub(d.At)))
	}
	return dst
}

func appendSFInteger(dst []byte, n int64) []byte {
	return strconv.AppendInt(dst, min(max(n, 0), maxSFInteger), 10)
}

// appendSFString appends a structured-field string; what none can hold becomes a question mark.
func appendSFString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c > 0x7e:
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// etag is a revision as an entity tag.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

var (
	errNoIfMatch = &wireError{
		code: api.PreconditionRequired, header: "If-Match",
		detail: "Send If-Match with the ETag you read, so that nobody's change is overwritten unseen.",
	}
	errBadIfMatch = &wireError{
		code: api.InvalidHeader, header: "If-Match",
		detail: `If-Match must be entity tags in quotes, such as "918004", or *.`,
	}
)

// errWeakIfMatch: a proxy that rewrites answers may have made a strong tag weak.
var errWeakIfMatch = &wireError{
	code: api.PreconditionFailed, header: "If-Match",
	detail: `A weak entity tag (W/"…") never matches in If-Match; send the ETag as this server gave it, without W/.`,
}

// etags is what If-Match accepts: the revisions listed, or whatever stands.
type etags struct {
	revisions []int64
	any       bool // *
	weak      bool // a weak tag was among them
}

func (m etags) has(revision int64) bool { return m.any || slices.Contains(m.revisions, revision) }

// ifMatch reads If-Match. A weak tag is never equal to anything (RFC 9110 section 13.1.1), nor
// is one we did not give out.
func ifMatch(h http.Header) (m etags, err error) {
	given := h["If-Match"]
	if len(given) == 0 {
		return m, errNoIfMatch
	}
	text := strings.Join(given, ",")
	if strings.TrimSpace(text) == "*" {
		return etags{any: true}, nil
	}
	for tag := range strings.SplitSeq(text, ",") {
		tag = strings.TrimSpace(tag)
		opaque, weak := strings.CutPrefix(tag, "W/")
		m.weak = m.weak || weak
		if len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' || strings.Contains(opaque[1:len(opaque)-1], `"`) {
			return etags{}, errBadIfMatch
		}
		n, err := strconv.ParseInt(opaque[1:len(opaque)-1], 10, 64)
		if err == nil && opaque == tag && n > 0 {
			m.revisions = append(m.revisions, n)
		}
	}
	return m, nil
}

// optionalIfMatch is the revision that If-Match insists on, 0 when it is not there or is *.
func optionalIfMatch(h http.Header) (int64, error) {
	if h["If-Match"] == nil {
		return 0, nil
	}
	m, err := ifMatch(h)
	switch {
	case err != nil:
		return 0, err
	case m.weak && len(m.revisions) == 0:
		return 0, errWeakIfMatch
	case len(m.revisions) > 1:
		return 0, errBadIfMatch
	case m.any:
		return 0, nil
	case len(m.revisions) == 0:
		return noRevision, nil
	}
	return m.revisions[0], nil
}

// noRevision is what nothing ever stands at.
const noRevision = -1
