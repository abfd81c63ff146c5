package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// A cursor is base64url of: version, issued (Unix seconds), where the page ended, MAC. The MAC
// covers tenant, route and filter as well, so that a cursor is of use to nobody else and for
// nothing else (FAULTS section 3 row 17).
const (
	cursorVersion = 1
	cursorHead    = 1 + 8
	cursorLife    = time.Hour
	maxCursor     = 2048 // characters
)

var (
	errBadCursor = &wireError{
		code: api.InvalidCursor, parameter: "cursor",
		detail: "The cursor was not made by this server for this list; start without one.",
	}
	errOldCursor = &wireError{
		code: api.CursorExpired, parameter: "cursor",
		detail: "The cursor is more than an hour old; start without one.",
	}
)

// cursors makes and reads cursors under one key, shared by all replicas.
type cursors struct{ key []byte }

// list names what a cursor belongs to.
type list struct{ tenant, route, filter string }

// make is a cursor for the page after position.
func (c cursors) make(of list, position []byte, now time.Time) string {
	b := make([]byte, cursorHead, cursorHead+len(position)+sha256.Size)
	b[0] = cursorVersion
	binary.BigEndian.PutUint64(b[1:], uint64(now.Unix()))
	b = append(b, position...)
	return base64.RawURLEncoding.EncodeToString(append(b, c.mac(of, b)...))
}

// read is the position a cursor was made with. Its MAC is judged before its age, so that a
// forged one learns nothing.
func (c cursors) read(of list, text string, now time.Time) ([]byte, error) {
	if len(text) > maxCursor {
		return nil, errBadCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < cursorHead+sha256.Size || b[0] != cursorVersion {
		return nil, errBadCursor
	}
	head, mac := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(mac, c.mac(of, head)) {
		return nil, errBadCursor
	}
	issued := time.Unix(int64(binary.BigEndian.Uint64(head[1:])), 0)
	if now.Sub(issued) > cursorLife {
		return nil, errOldCursor
	}
	return head[cursorHead:], nil
}

// mac covers each part with its length before it, so that no two lists are spelt alike.
func (c cursors) mac(of list, head []byte) []byte {
	m := hmac.New(sha256.New, c.key)
	var length [8]byte
	for _, part := range [...]string{"holdfast cursor", of.tenant, of.route, of.filter} {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		m.Write(length[:])
		m.Write([]byte(part))
	}
	m.Write(head)
	return m.Sum(nil)
}
