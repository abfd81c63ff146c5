package httpapi

import (
	"errors"
	"testing"
	"time"
)

func TestCursor_BelongsToItsListAndHour(t *testing.T) { // FAULTS section 3 row 17
	t.Parallel()
	c := cursors{key: []byte("0123456789abcdef")}
	mine := list{"default", "GET /v1/limits", "limit=exports"}
	text := c.make(mine, []byte("after"), noon)
	for _, one := range []struct {
		name string
		by   cursors
		of   list
		text string
		at   time.Time
		want error
	}{
		{"at once", c, mine, text, noon, nil},
		{"after an hour", c, mine, text, noon.Add(time.Hour), nil},
		{"after more than an hour", c, mine, text, noon.Add(time.Hour + time.Second), errOldCursor},
		{"another tenant", c, list{"other", mine.route, mine.filter}, text, noon, errBadCursor},
		{"another list", c, list{mine.tenant, "GET /v1/reservations", mine.filter}, text, noon, errBadCursor},
		{"another filter", c, list{mine.tenant, mine.route, ""}, text, noon, errBadCursor},
		{"parts that only look alike", c, list{mine.tenant + mine.route, "", mine.filter}, text, noon, errBadCursor},
		{"another key", cursors{key: []byte("another key, 16b")}, mine, text, noon, errBadCursor},
		{"forged and old", cursors{key: []byte("another key, 16b")}, mine, text, noon.Add(9 * time.Hour), errBadCursor},
		{"nothing", c, mine, "", noon, errBadCursor},
		{"no base64", c, mine, "***", noon, errBadCursor},
		{"cut", c, mine, text[:len(text)-4], noon, errBadCursor},
		{"changed", c, mine, "B" + text[1:], noon, errBadCursor},
	} {
		position, err := one.by.read(one.of, one.text, one.at)
		if !errors.Is(err, one.want) || err == nil && string(position) != "after" {
			t.Errorf("%s: read(%v, %q): got %q, %v, want %v", one.name, one.of, one.text, position, err, one.want)
		}
	}
}

func FuzzCursor(f *testing.F) {
	c := cursors{key: []byte("0123456789abcdef")}
	of := list{"default", "GET /v1/limits", ""}
	good := c.make(of, []byte("x"), noon)
	f.Add(good)
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := c.read(of, text, noon); err == nil && text != good {
			t.Fatalf("%q is taken for a cursor of ours", text)
		}
	})
}
