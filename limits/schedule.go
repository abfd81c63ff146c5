package limits

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/windows"
)

// Schedule sets a limit's amount at the turns that Cron names, on the wall clock of Zone; it
// stays until the next turn of any schedule of the limit.
type Schedule struct {
	Cron   string // five fields
	Zone   string // a name of the IANA time zone database, or UTC
	Amount int64
}

// Turn is what the schedules of a limit have made of its amount.
type Turn struct {
	Amount int64     // in force since At
	At     time.Time // zero: no schedule has had a turn yet, the limit's own amount holds
	Next   time.Time // when the next turn comes; zero: the limit has no schedule
}

// zones are the time zones met so far, by name; the database has some 600.
var zones sync.Map

// zoneOf finds a time zone. Its name is a field of its own and never part of a specification.
func zoneOf(name string) (*time.Location, error) {
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	z, err := time.LoadLocation(name)
	if err != nil || name == "" || strings.EqualFold(name, "local") || len(name) > MaxZone {
		return nil, errors.New("must be a time zone such as UTC or Europe/Berlin")
	}
	zones.Store(name, z)
	return z, nil
}

// schedules judges those of a limit.
func (f *faults) schedules(l *Limit) {
	f.need(len(l.Schedules) <= MaxSchedules, "/schedules", fmt.Sprintf("must be at most %d", MaxSchedules))
	if len(l.Schedules) > MaxSchedules {
		return
	}
	for i, s := range l.Schedules {
		at := fmt.Sprintf("/schedules/%d", i)
		if _, err := parseCron(s.Cron); err != nil {
			f.add(at+"/cron", err.Error())
		}
		if _, err := zoneOf(s.Zone); err != nil {
			f.add(at+"/tz", err.Error())
		}
		f.need(s.Amount >= 0 && s.Amount <= MaxAmount, at+"/amount", "must be 0 to 1000000000")
		if l.Window.Kind == windows.Bucket && s.Amount >= 0 && s.Amount <= MaxAmount && l.Window.Refill >= 1 && !refillsInTime(s.Amount, l.Window.Refill) {
			f.add(at+"/amount", "is too much: the bucket must refill within 10 years")
		}
	}
}

// timetable is a schedule as it is computed with.
type timetable struct {
	cron   cron
	zone   *time.Location
	amount int64
}

// timetables are the schedules of l, nil when one cannot be read here, such as for want of a
// time zone that another replica knows.
func (l *Limit) timetables() []timetable {
	all := make([]timetable, len(l.Schedules))
	for i, s := range l.Schedules {
		c, err := parseCron(s.Cron)
		z, zoneErr := zoneOf(s.Zone)
		if err != nil || zoneErr != nil {
			return nil
		}
		all[i] = timetable{c, z, s.Amount}
	}
	return all
}

// TurnAt is what the schedules have made of the amount by now: the latest turn decides; of two
// at one instant the one that comes later on the wall clock, which may have jumped over both;
// of two at one reading the schedule that stands later in the list. A limit whose schedules cannot
// be read here keeps its turn, without a next one.
// Cost: some tens of microseconds a schedule.
func (l *Limit) TurnAt(now time.Time) Turn {
	all := l.timetables()
	if len(all) == 0 {
		if len(l.Schedules) > 0 {
			return Turn{Amount: l.Turn.Amount, At: l.Turn.At}
		}
		return Turn{}
	}
	var t Turn
	var by timetable
	for _, s := range all {
		if at, ok := s.cron.lastIn(now, s.zone); ok && (at.After(t.At) || at.Equal(t.At) && s.beats(by, at)) {
			t.At, t.Amount, by = at, s.amount, s
		}
	}
	t.Next, _ = nextTurn(all, now)
	return t
}

// beats reports whether s decides at an instant that is a turn of both; s stands later in the
// list.
func (s timetable) beats(other timetable, at time.Time) bool {
	return !s.cron.wallAt(at, s.zone).Before(other.cron.wallAt(at, other.zone))
}

// nextTurn is the first turn after an instant, and the amount it sets.
func nextTurn(all []timetable, after time.Time) (at time.Time, amount int64) {
	var by timetable
	for _, s := range all {
		next, ok := s.cron.nextIn(after, s.zone)
		if ok && (at.IsZero() || next.Before(at) || next.Equal(at) && s.beats(by, at)) {
			at, amount, by = next, s.amount, s
		}
	}
	return at, amount
}

// ScheduledChange is an amount that a schedule will set.
type ScheduledChange struct {
	At     time.Time
	Amount int64
}

// NextChanges are the next turns after an instant that change the amount, at most so many; few
// when the schedules repeat one amount.
func (l *Limit) NextChanges(after time.Time, most int) []ScheduledChange {
	all := l.timetables()
	amount, at := l.Base(), after
	var next []ScheduledChange
	for looks := 0; len(next) < most && looks < maxLooks; looks++ {
		t, a := nextTurn(all, at)
		if t.IsZero() {
			break
		}
		if at = t; a != amount {
			next, amount = append(next, ScheduledChange{t, a}), a
		}
	}
	return next
}

// maxLooks bounds the turns that NextChanges looks at.
const maxLooks = 100

// Base is the amount in force when no override and no plan stands in for it.
func (l *Limit) Base() int64 {
	if l.Turn.At.IsZero() {
		return l.Amount
	}
	return l.Turn.Amount
}
