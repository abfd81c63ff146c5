package limits

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// cron is the instants, on a wall clock, at which a schedule takes its turn: five fields, as in
// crontab(5): minute, hour, day of the month, month, day of the week (0 and 7 are Sunday), each
// *, a number, a range, a list of them, with steps; months and days by their English names
// too. When both days are restricted either will do. No seconds, no @words, no zone within.
type cron struct {
	minute, hour, day, month, weekday uint64 // bit n: n is in it
	anyDay, anyWeekday                bool   // the field began with *
}

// cronField is one field's bounds, and the names of its values from the least on.
type cronField struct {
	name        string
	least, most int
	words       []string
}

var cronFields = [...]cronField{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// parseCron reads a specification. Errors: which field is wrong, for a person; no other kind.
func parseCron(spec string) (c cron, err error) {
	if len(spec) > MaxCron {
		return c, fmt.Errorf("must be at most %d bytes", MaxCron)
	}
	fields := strings.Fields(spec)
	if len(fields) != len(cronFields) {
		return c, errors.New("must be five fields: minute, hour, day of the month, month, day of the week, such as \"0 8 * * mon-fri\"")
	}
	var sets [len(cronFields)]uint64
	for i, f := range cronFields {
		if sets[i], err = f.parse(fields[i]); err != nil {
			return cron{}, err
		}
	}
	c = cron{minute: sets[0], hour: sets[1], day: sets[2], month: sets[3], weekday: sets[4]}
	c.anyDay, c.anyWeekday = fields[2][0] == '*', fields[4][0] == '*'
	if c.weekday&(1<<7) != 0 {
		c.weekday = c.weekday&^(1<<7) | 1
	}
	if _, ok := c.next(civil{2000, 1, 1, 0, 0}); !ok {
		return cron{}, errors.New("names a day that no month has")
	}
	return c, nil
}

func (f cronField) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(part, "/")
		from, to, err := f.span(span, stepped)
		if err != nil {
			return 0, err
		}
		by := 1
		if stepped {
			if by, err = strconv.Atoi(step); err != nil || by < 1 || by > f.most || step[0] == '+' {
				return 0, f.fault(part)
			}
		}
		for n := from; n <= to; n += by {
			set |= 1 << n
		}
	}
	return set, nil
}

// span reads *, n or n-m; n with a step goes to the end, as in crontab.
func (f cronField) span(text string, open bool) (from, to int, err error) {
	if text == "*" {
		most := f.most
		if f.words != nil && f.least == 0 {
			most = 6 // Sunday once
		}
		return f.least, most, nil
	}
	low, high, ranged := strings.Cut(text, "-")
	from, ok := f.number(low)
	if !ok {
		return 0, 0, f.fault(text)
	}
	switch {
	case ranged:
		if to, ok = f.number(high); !ok || to < from {
			return 0, 0, f.fault(text)
		}
	case open:
		to = f.most
	default:
		to = from
	}
	return from, to, nil
}

func (f cronField) number(text string) (int, bool) {
	for i, word := range f.words {
		if strings.EqualFold(text, word) {
			return f.least + i, true
		}
	}
	if text == "" || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= f.least && n <= f.most
}

func (f cronField) fault(text string) error {
	return fmt.Errorf("%s: %q is not within %d to %d", f.name, text, f.least, f.most)
}

// civil is a reading of a wall clock, to the minute.
type civil struct{ year, month, day, hour, minute int }

func civilOf(t time.Time) civil {
	y, m, d := t.Date()
	return civil{y, int(m), d, t.Hour(), t.Minute()}
}

// utc is the instant at which a clock in UTC reads c.
func (c civil) utc() time.Time {
	return time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, 0, 0, time.UTC)
}

// farthest is how far ahead a turn is looked for, in years: between leap days that fall on one
// weekday lie up to 40.
const farthest = 44

// next is the first reading after the given one that is in c.
func (c cron) next(after civil) (civil, bool) {
	at := civilOf(after.utc().Add(time.Minute))
	last := at.year + farthest
	for at.year <= last {
		switch {
		case c.month&(1<<at.month) == 0:
			at = civilOf(civil{at.year, at.month + 1, 1, 0, 0}.utc())
		case !c.onDay(at):
			at = civilOf(civil{at.year, at.month, at.day + 1, 0, 0}.utc())
		case c.hour>>at.hour == 0: // none left today
			at = civilOf(civil{at.year, at.month, at.day + 1, 0, 0}.utc())
		case c.hour&(1<<at.hour) == 0:
			at.hour, at.minute = at.hour+bits.TrailingZeros64(c.hour>>at.hour), 0
		case c.minute>>at.minute == 0: // none left in this hour
			at = civilOf(civil{at.year, at.month, at.day, at.hour + 1, 0}.utc())
		default:
			at.minute += bits.TrailingZeros64(c.minute >> at.minute)
			return at, true
		}
	}
	return civil{}, false
}

func (c cron) onDay(at civil) bool {
	day := c.day&(1<<at.day) != 0
	weekday := c.weekday&(1<<at.utc().Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday // a step such as */2 restricts all the same
	}
	return day || weekday
}

// firstAt is the first instant at which a clock in zone has reached c: where the clock is put
// forward past c, that instant; where it is put back and reads c twice, the first time.
func firstAt(c civil, zone *time.Location) time.Time {
	wall := c.utc()
	from := wall.Add(-26 * time.Hour) // before any instant at which a clock on earth reads c
	for {
		_, offset := from.In(zone).Zone()
		begins, ends := from.In(zone).ZoneBounds()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if ends.IsZero() || at.Before(ends) {
			if at.Before(begins) {
				at = begins
			}
			return at.UTC()
		}
		from = ends
	}
}

// nextIn is the first turn after an instant, on the wall clock of zone.
func (c cron) nextIn(after time.Time, zone *time.Location) (time.Time, bool) {
	for at := civilOf(after.In(zone)); ; {
		next, ok := c.next(at)
		if !ok {
			return time.Time{}, false
		}
		if t := firstAt(next, zone); t.After(after) {
			return t, true
		}
		at = next // the clock reads it once more; it was its turn the first time
	}
}

// lastIn is the latest turn that is not after an instant.
func (c cron) lastIn(now time.Time, zone *time.Location) (time.Time, bool) {
	for _, back := range [...]time.Duration{2 * time.Hour, 3 * day, 40 * day, 400 * day, farthest * 366 * day} {
		last, ok := c.nextIn(now.Add(-back), zone)
		if !ok || last.After(now) {
			continue
		}
		// Halve what lies between the latest turn found and now, until nothing fits between.
		for until := now; until.Sub(last) > time.Minute; {
			middle := last.Add(until.Sub(last) / 2)
			if next, ok := c.nextIn(middle, zone); ok && !next.After(now) {
				last = next
			} else {
				until = middle
			}
		}
		if next, ok := c.nextIn(last, zone); ok && !next.After(now) {
			last = next
		}
		return last, true
	}
	return time.Time{}, false
}

// wallAt is the latest reading that has its turn at an instant: several have when the clock is
// put forward past them.
func (c cron) wallAt(at time.Time, zone *time.Location) time.Time {
	last := civilOf(at.Add(-time.Minute).In(zone))
	for {
		next, ok := c.next(last)
		if !ok || !firstAt(next, zone).Equal(at) {
			return last.utc()
		}
		last = next
	}
}

const day = 24 * time.Hour
