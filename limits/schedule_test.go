package limits

import (
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the oracle must not depend on the machine

	"github.com/holdfast-dev/holdfast/windows"
)

// sixZones change their clocks in spring and autumn in six ways: at night, at midnight, by half
// an hour, on a quarter of an hour, in the south, and around Ramadan.
var sixZones = []string{
	"Europe/Berlin", "Africa/Cairo", "Australia/Lord_Howe", "Pacific/Chatham", "America/Santiago", "Africa/Casablanca",
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func scheduled(zone string, specs ...string) *Limit {
	l := &Limit{ID: "l", Name: "l", SubjectKind: "user", Action: "a", Amount: 7, Window: windows.Window{Kind: windows.Concurrent}, Enabled: true}
	for i, spec := range specs {
		l.Schedules = append(l.Schedules, Schedule{Cron: spec, Zone: zone, Amount: int64(100 + i)})
	}
	*l = l.WithDefaults()
	return l
}

// oracle is a schedule as a person with a wall clock would keep it: each quarter of an hour look
// at the clock; every reading that has not been seen before and is in the schedule is a turn,
// those that the clock has jumped over too.
type oracle struct {
	zone  *time.Location
	turns []func(wall time.Time) bool
	high  time.Time // the latest reading seen, as if it were UTC
	now   int64     // amount in force
}

func (o *oracle) look(at time.Time) {
	in := at.In(o.zone)
	wall := time.Date(in.Year(), in.Month(), in.Day(), in.Hour(), in.Minute(), 0, 0, time.UTC)
	for o.high.Before(wall) {
		o.high = o.high.Add(15 * time.Minute)
		for i, turn := range o.turns {
			if turn(o.high) {
				o.now = int64(100 + i)
			}
		}
	}
}

// Issue 8, shown by 4: six zones, 2025 to 2030, each hour against the naive oracle.
func TestSchedule_IsTheOraclesHourByHour(t *testing.T) {
	t.Parallel()
	at := func(hour, minute int) func(time.Time) bool {
		return func(w time.Time) bool { return w.Hour() == hour && w.Minute() == minute }
	}
	specs := []string{"30 0 * * *", "0,30 1-3/2 * 3,4,9-11 *", "15 2 * * *", "0 8 * * mon-fri", "45 23 13 * 5"}
	turns := []func(time.Time) bool{
		at(0, 30),
		func(w time.Time) bool {
			return (w.Hour() == 1 || w.Hour() == 3) && w.Minute()%30 == 0 &&
				slices.Contains([]time.Month{3, 4, 9, 10, 11}, w.Month())
		},
		at(2, 15),
		func(w time.Time) bool {
			return at(8, 0)(w) && w.Weekday() != time.Saturday && w.Weekday() != time.Sunday
		},
		func(w time.Time) bool { return at(23, 45)(w) && (w.Day() == 13 || w.Weekday() == time.Friday) },
	}
	for _, name := range sixZones {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := zone(t, name)
			from := time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
			o := oracle{zone: z, turns: turns, now: 7}
			start := from.In(z)
			o.high = time.Date(start.Year(), start.Month(), start.Day()-5, start.Hour(), start.Minute()/15*15, 0, 0, time.UTC)
			l := scheduled(name, specs...)
			l.Turn = l.TurnAt(from)
			last := 2030
			if testing.Short() {
				last = 2026
			}
			for at := from; at.Year() <= last; at = at.Add(15 * time.Minute) {
				o.look(at)
				if !l.Turn.Next.IsZero() && !l.Turn.Next.After(at) { // as whoever sees it first does
					l.Turn = l.TurnAt(at)
				}
				if got := l.Base(); got != o.now {
					t.Fatalf("at %s (%s): amount %d, the oracle has %d; turn %+v", at.Format(time.RFC3339), at.In(z), got, o.now, l.Turn)
				}
				if at.Minute() == 0 && at.Hour() == 0 && at.Weekday() == time.Sunday && l.TurnAt(at) != l.Turn {
					t.Fatalf("at %s: looked at anew the turn is %+v, kept it is %+v", at.Format(time.RFC3339), l.TurnAt(at), l.Turn)
				}
			}
		})
	}
}

// Spring and autumn by hand, where the rule is easiest to read.
func TestSchedule_WhereTheClockJumps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, zone, spec, after, want string }{
		{"02:30 does not exist in Berlin: at the jump", "Europe/Berlin", "30 2 * * *", "2025-03-29T12:00:00Z", "2025-03-30T01:00:00Z"},
		{"02:30 is read twice in Berlin: the first time", "Europe/Berlin", "30 2 * * *", "2025-10-25T12:00:00Z", "2025-10-26T00:30:00Z"},
		{"and not the second time", "Europe/Berlin", "30 2 * * *", "2025-10-26T00:30:00Z", "2025-10-27T01:30:00Z"},
		{"midnight does not exist in Cairo", "Africa/Cairo", "0 0 * * *", "2025-04-24T12:00:00Z", "2025-04-24T22:00:00Z"},
		{"half an hour on Lord Howe", "Australia/Lord_Howe", "15 2 * * *", "2025-10-04T12:00:00Z", "2025-10-04T15:30:00Z"},
		{"leap day", "UTC", "0 0 29 2 *", "2025-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"a day of the month or of the week", "UTC", "0 0 13 * fri", "2025-06-01T00:00:00Z", "2025-06-06T00:00:00Z"},
		{"Sunday is 0 and 7", "UTC", "0 0 * * 7", "2025-06-02T00:00:00Z", "2025-06-08T00:00:00Z"},
	} {
		l := scheduled(c.zone, c.spec)
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.TurnAt(after).Next.Format(time.RFC3339); got != c.want {
			t.Errorf("%s: %s in %s after %s: got %s, want %s", c.name, c.spec, c.zone, c.after, got, c.want)
		}
	}
}

func TestSchedule_LaterInTheListWinsATie(t *testing.T) {
	t.Parallel()
	l := scheduled("UTC", "0 8 * * *", "0 8 * * *")
	now := time.Date(2025, 6, 1, 9, 0, 0, 0, time.UTC)
	if got := l.TurnAt(now); got.Amount != 101 || !got.At.Equal(now.Add(-time.Hour)) || !got.Next.Equal(now.Add(23*time.Hour)) {
		t.Errorf("got %+v", got)
	}
	if got := l.NextChanges(now, 5); len(got) != 1 || got[0].Amount != 101 {
		t.Errorf("changes: got %+v; want one, since the amount then stays", got)
	}
}

func TestSchedule_NextChanges(t *testing.T) {
	t.Parallel()
	l := scheduled("Europe/Berlin", "0 8 * * mon-fri", "0 20 * * *")
	now := time.Date(2025, 6, 6, 12, 0, 0, 0, time.UTC) // a Friday
	l.Turn = l.TurnAt(now)
	var got []string
	for _, c := range l.NextChanges(now, 3) {
		got = append(got, c.At.Format("Mon 15:04"))
	}
	if want := []string{"Fri 18:00", "Mon 06:00", "Mon 18:00"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSchedule_Refuses(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{
		"", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 8", "-1 * * * *", "1-0 * * * *",
		"*/0 * * * *", "*/60 * * * *", "*/-1 * * * *", "*/+1 * * * *", "1,,2 * * * *", ", * * * *", "@daily", "TZ=UTC * * * * *", "CRON_TZ=UTC 0 0 * * *", "TZ=0",
		"0 0 30 2 *", "0 0 31 4,6,9,11 *", "a * * * *", "0 0 * foo *", "1e1 * * * *", "+1 * * * *", "0x1 * * * *", "? * * * *", "L * * * *",
		strings.Repeat("1,", 100) + "1 * * * *",
	} {
		l := scheduled("UTC", spec)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "/schedules/0/cron") {
			t.Errorf("%q: got %v, want /schedules/0/cron named", spec, err)
		}
	}
	for _, name := range []string{"", "Local", "local", "Mars/Base", "../etc/passwd", "Europe/Berlin\x00", strings.Repeat("x", 65)} {
		if err := scheduled(name, "0 0 * * *").Validate(); err == nil || !strings.Contains(err.Error(), "/schedules/0/tz") {
			t.Errorf("zone %q: got %v, want /schedules/0/tz named", name, err)
		}
	}
	l := scheduled("UTC", "0 0 * * *")
	l.Schedules[0].Amount = -1
	if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "/schedules/0/amount") {
		t.Errorf("an amount below 0: got %v", err)
	}
	l.Schedules = make([]Schedule, MaxSchedules+1)
	if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "/schedules must be at most 16") {
		t.Errorf("17 schedules: got %v", err)
	}
}

// Any text is an error or a schedule whose turns come in order; nothing panics.
func FuzzSchedule(f *testing.F) {
	for _, seed := range []string{"0 8 * * mon-fri", "TZ=UTC 0 0 * * *", "*/15 1-3 1,15 jan-mar/2 5-7", "0 0 29 2 1", "59 23 31 12 7", "@every 1s"} {
		f.Add(seed, "Europe/Berlin", int64(1_760_000_000))
	}
	f.Fuzz(func(t *testing.T, spec, name string, unix int64) {
		l := scheduled(name, spec)
		if l.Validate() != nil {
			return
		}
		now := time.Unix(unix%4_000_000_000, 0).UTC()
		turn := l.TurnAt(now)
		if turn.At.After(now) || !turn.Next.IsZero() && !turn.Next.After(now) {
			t.Errorf("%q in %q at %s: got %+v", spec, name, now, turn)
		}
		if !turn.Next.IsZero() && !l.TurnAt(turn.Next).At.Equal(turn.Next) {
			t.Errorf("%q in %q: at its next turn %s it is %+v", spec, name, turn.Next, l.TurnAt(turn.Next))
		}
	})
}
