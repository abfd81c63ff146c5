package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// timeLayout is RFC 3339 in UTC with exactly three digits of a second.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is an instant on the wire: RFC 3339, UTC, milliseconds. What is finer is cut off, so
// that an instant never moves into the future by being told.
type Time struct{ time.Time }

// At wraps t for the wire.
func At(t time.Time) Time { return Time{t} }

// AtPtr wraps t for a field that may be absent: nil for the zero time.
func AtPtr(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t}
}

// AppendText appends the instant as it stands on the wire, without quotes.
func (t Time) AppendText(dst []byte) ([]byte, error) {
	u := t.UTC()
	if y := u.Year(); y < 0 || y > 9999 {
		return dst, errors.New("api: year outside 0..9999")
	}
	return u.AppendFormat(dst, timeLayout), nil
}

// MarshalText writes the instant as AppendText does.
func (t Time) MarshalText() ([]byte, error) { return t.AppendText(nil) }

// MarshalJSON writes the instant as a JSON string.
func (t Time) MarshalJSON() ([]byte, error) {
	dst, err := t.AppendText(append(make([]byte, 0, len(timeLayout)+2), '"'))
	return append(dst, '"'), err
}

// UnmarshalJSON reads any RFC 3339 instant, whatever its zone and fraction; null is refused.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return errors.New("api: an instant is a string")
	}
	return t.UnmarshalText([]byte(text))
}

// UnmarshalText reads any RFC 3339 instant and keeps it in UTC.
func (t *Time) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil || !isRFC3339(text) {
		return errors.New("api: not an RFC 3339 instant")
	}
	at = at.UTC()
	if y := at.Year(); y < 0 || y > 9999 { // its zone moved it to where it cannot be written
		return errors.New("api: year outside 0..9999")
	}
	t.Time = at
	return nil
}

// isRFC3339 refuses what time.Parse lets pass beyond the standard: one digit for an hour, a
// comma before a fraction, a zone past a day.
func isRFC3339(text []byte) bool {
	if len(text) < len("2006-01-02T15:04:05Z") || text[13] != ':' || bytes.IndexByte(text, ',') >= 0 {
		return false
	}
	if text[len(text)-1] == 'Z' {
		return true
	}
	zone := text[len(text)-len("07:00"):]
	return string(zone[:2]) <= "23" && string(zone[3:]) <= "59"
}
