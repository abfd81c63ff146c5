package httpapi

import (
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestRefusedBy_SaysWhatToDo(t *testing.T) { // API.md section 7
	t.Parallel()
	u42 := limits.Subject{Kind: "user", ID: "u_42"}
	later := func(v reserve.Verdict, wait time.Duration) reserve.Verdict { v.RetryAt = noon.Add(wait); return v }
	w := func(k windows.Kind) windows.Window { return windows.Window{Kind: k} }
	shared := verdict("gpu", 1, w(windows.Concurrent), reserve.NoSlot, 0)
	shared.Rule.Share = limits.All
	for _, one := range []struct {
		name    string
		v       reserve.Verdict
		code    api.Code
		detail  string
		seconds int64 // 0: no retry
	}{
		{
			"full", later(verdict("exports", 3, w(windows.Concurrent), reserve.NoSlot, 0), 21001*time.Millisecond), api.NoFreeSlot,
			"exports allows 3 at once for user:u_42 and 3 are held; the earliest expires in 22 s, a release may come sooner.", 22,
		},
		{"full for all", shared, api.NoFreeSlot, "gpu allows 1 at once for all and 1 is held; a release frees a slot.", 0},
		{
			"an hour used up", later(verdict("h", 10, w(windows.Hour), reserve.UsedUp, 2), time.Minute), api.QuotaExceeded,
			"h allows 10 an hour for user:u_42 and 8 are used; this cost fits again in 60 s.", 60,
		},
		{
			"a day used up", later(verdict("d", 10, w(windows.Day), reserve.UsedUp, 0), time.Nanosecond), api.QuotaExceeded,
			"d allows 10 a day for user:u_42 and 10 are used; this cost fits again in 1 s.", 1,
		},
		{
			"a bucket empty", later(verdict("b", 20, w(windows.Bucket), reserve.UsedUp, 0), 50*time.Millisecond), api.QuotaExceeded,
			"b allows a burst of 20 for user:u_42 and 20 are used; this cost fits again in 1 s.", 1,
		},
		{
			"a total used up", verdict("t", 5, w(windows.Total), reserve.UsedUp, 0), api.QuotaExceeded,
			"t allows 5 in total for user:u_42 and 5 are used; what is used does not come back by itself.", 0,
		},
		{
			"never", verdict("c", 5, w(windows.Week), reserve.NeverFits, 5), api.NeverFits,
			"c allows 5 a week, less than this cost. Waiting would not help.", 0,
		},
		{
			"closed", verdict("c", 0, w(windows.Concurrent), reserve.NeverFits, 0), api.NeverFits,
			"c is closed: its amount is 0. Waiting would not help.", 0,
		},
	} {
		d := reserve.Decision{At: noon, Verdicts: []reserve.Verdict{one.v}, Binding: 0}
		no := refusedBy(&d, u42)
		p := no.problem()
		var a api.CheckAnswer
		no.into(&a)
		if p.Code != one.code || p.Detail != one.detail || a.Code != p.Code || a.Detail != p.Detail || a.DecidedBy != p.DecidedBy {
			t.Errorf("%s: got %s %q (check: %s %q), want %s %q", one.name, p.Code, p.Detail, a.Code, a.Detail, one.code, one.detail)
		}
		for who, got := range map[string]*int64{"problem": p.RetryAfterSeconds, "check": a.RetryAfterSeconds, "limit": p.Limits[0].RetryAfterSeconds} {
			if (got == nil) != (one.seconds == 0) || got != nil && *got != one.seconds {
				t.Errorf("%s: retry of the %s: got %v, want %d", one.name, who, got, one.seconds)
			}
		}
	}
}

func TestRefusedBy_TheLongestWaitOfThoseThatRefuse(t *testing.T) { // API.md section 4 rule 4
	t.Parallel()
	short := verdict("a", 1, windows.Window{Kind: windows.Minute}, reserve.UsedUp, 0)
	short.RetryAt, short.ResetsAt = noon.Add(10*time.Second), noon.Add(10*time.Second)
	long := verdict("b", 1, windows.Window{Kind: windows.Hour}, reserve.UsedUp, 0)
	long.RetryAt, long.ResetsAt = noon.Add(1800*time.Second), noon.Add(1800*time.Second)
	d := reserve.Decision{At: noon, Verdicts: []reserve.Verdict{short, long}, Binding: 1}
	no := refusedBy(&d, limits.Subject{Kind: "user", ID: "u"})
	p := no.problem()
	if p.DecidedBy != "b" || *p.RetryAfterSeconds != 1800 || *p.RetryAfterMs != 1_800_000 || *p.ResetsInSeconds != 1800 || len(p.Limits) != 2 {
		t.Errorf("a waits 10 s, b 1800 s: got %+v", p)
	}
}

func TestShownPrincipal(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"user:19:https://issuer.test:u_42": "user:u_42",
		"user:3:a:b:c:d":                   "user:c:d",
		"host:0::x":                        "host:x",
		"":                                 "",
		"replica":                          "replica",
		"user:99:short:u":                  "user:99:short:u",
		"user:-1:x:u":                      "user:-1:x:u",
		"user:x:x:u":                       "user:x:x:u",
	} {
		if got := shownPrincipal(id); got != want {
			t.Errorf("shownPrincipal(%q): got %q, want %q", id, got, want)
		}
	}
}

func TestReservationView_NothingIsNull(t *testing.T) {
	t.Parallel()
	r := reserve.Reservation{Record: reserve.Record{State: reserve.Held}, Left: 1999 * time.Millisecond, HoldTTL: 2 * time.Second}
	v := reservationView(&r, nil)
	if v.Slots == nil || v.Labels == nil || v.Limits == nil || *v.TTLSeconds != 1 || *v.HeartbeatSeconds != 1 {
		t.Errorf("a bare hold with 1.999 s left: got %+v, want empty lists, 1 s left, a beat each second", v)
	}
	if got := reservationView(&reserve.Reservation{Record: reserve.Record{State: 99}}, nil).State; got != "" {
		t.Errorf("an unknown state: got %q", got)
	}
}
