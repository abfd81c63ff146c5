package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Cases that move the clock of windows: each on a server of its own, with --test-clock.

// clocked is a case on a server whose clock it moves. Nothing is kept on disk unless the case
// is about that.
func clocked(t *testing.T, name string, flags ...string) (*tale, *window) {
	t.Helper()
	s := dev(t, append([]string{"--test-clock"}, flags...)...)
	k := &tale{caller: s.admin(t), id: "u1", action: name}
	return k, &window{caller: k.caller}
}

func TestCase_O11_ARefusalByOneTierIsPaidInAnother(t *testing.T) {
	t.Parallel()
	k, w := clocked(t, "o11", "--memory")
	k.limit(`{"name":"o11-m","subjectKind":"user","action":"o11","amount":2,"window":"minute"}`)
	k.limit(`{"name":"o11-c","subjectKind":"user","action":"o11","amount":1,"window":"concurrent"}`)
	w.next(time.Minute)
	reserve := func(refusedBy string, used int64) string {
		t.Helper()
		a := k.check(k.body(`"cost":1,"mode":"reserve","ttlSeconds":60`))
		is(t, "allowed", a.Allowed, refusedBy == "")
		is(t, "decidedBy", a.DecidedBy, refusedBy)
		is(t, "minute used", k.usedOf("o11-m"), used)
		if a.Reservation == nil {
			return ""
		}
		return a.Reservation.ID
	}
	first := reserve("", 1)
	reserve("o11-c", 1)
	k.act(first, "commit", `{}`)
	k.act(reserve("", 2), "commit", `{}`)
	reserve("o11-m", 2)

	// Ten a minute and thirty an hour: the refused calls of each minute do not empty the hour.
	k.action = "o11b"
	k.limit(`{"name":"o11b-m","subjectKind":"user","action":"o11b","amount":10,"window":"minute"}`)
	k.limit(`{"name":"o11b-h","subjectKind":"user","action":"o11b","amount":30,"window":"hour"}`)
	hour := w.next(time.Hour)
	for minute, want := range []int{10, 10, 10, 0} {
		w.to(hour.Add(time.Duration(minute) * time.Minute))
		is(t, fmt.Sprintf("allowed in minute %d", minute+1), k.allowed(40, func() api.CheckAnswer { return k.consume(1) }), want)
	}
	is(t, "hour used", k.usedOf("o11b-h"), 30)
}

func TestCase_O13_OneMoreOrOneLess(t *testing.T) {
	t.Parallel()
	k, w := clocked(t, "o13", "--memory")
	for _, amount := range []int{1, 2, 6} {
		for name, window := range map[string]string{
			"calendar": `"window":"minute"`, "rolling": `"window":"minute","rolling":true`, "concurrent": `"window":"concurrent"`,
		} {
			id := fmt.Sprintf("o13-%s-%d", name, amount)
			k.limit(fmt.Sprintf(`{"name":%q,"subjectKind":"user","action":%q,"amount":%d,%s}`, id, id, amount, window))
			one := *k
			one.action = id
			call := func() api.CheckAnswer { return one.consume(1) }
			if name == "concurrent" {
				call = func() api.CheckAnswer { return one.reserve(300) }
			}
			w.next(time.Minute)
			is(t, id+": allowed", one.allowed(amount+5, call), amount)
		}
	}
	t.Run("6 a minute over a day", func(t *testing.T) {
		notInShort(t)
		oneDay(t, k, w)
	})
}

// oneDay makes 7 calls in each minute of a day under a limit of 6.
func oneDay(t *testing.T, k *tale, w *window) {
	k.limit(`{"name":"o13-day","subjectKind":"user","action":"o13-day","amount":6,"window":"minute"}`)
	one := *k
	one.action = "o13-day"
	start := w.next(24 * time.Hour)
	total := 0
	for minute := range 24 * 60 {
		w.to(start.Add(time.Duration(minute) * time.Minute))
		var mu sync.Mutex
		var calls sync.WaitGroup
		allowed := 0
		for range 7 {
			calls.Go(func() {
				r, err := one.try(t.Context(), http.MethodPost, "/v1/checks", one.body(`"mode":"consume"`))
				if err != nil || r.status != http.StatusOK {
					t.Errorf("%s, %v, want 200", r, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(string(r.body), `"allowed":true`) {
					allowed++
				}
			})
		}
		calls.Wait()
		if allowed != 6 {
			t.Errorf("minute %d: %d of 7 allowed, want 6", minute, allowed)
		}
		if late := w.now().Sub(start.Add(time.Duration(minute+1) * time.Minute)); late > 0 {
			t.Fatalf("minute %d took longer than a minute", minute)
		}
		total += allowed
	}
	is(t, "allowed of 10,080", total, 8640)
}

func TestCase_O15_TenThousandAlarms(t *testing.T) {
	t.Parallel()
	s := dev(t, "--test-clock")
	k := &tale{caller: s.admin(t), id: "u1", action: "o15"}
	w := &window{caller: k.caller}
	k.limit(`{"name":"o15","subjectKind":"user","action":"o15","amount":1,"window":"day"}`)
	day := w.next(24 * time.Hour)
	ask := func(id string, allowed bool) {
		t.Helper()
		one := *k
		one.id = id
		is(t, id+" allowed", one.consume(1).Allowed, allowed)
	}
	ask("u1", true)
	ask("u2", true)
	w.to(day.Add(30 * time.Minute))
	sink := k.hear("?type=limit.exceeded", "")
	asks := 10_000
	if testing.Short() {
		asks = 600
	}
	for n := range asks {
		switch n {
		case asks / 3:
			ask("u2", false)
		case asks / 2: // the three servers of the case are one here, one after the other; several: issue 7
			w.to(day.Add(time.Hour))
			heard := sink.await(t, 2)
			s.stop(t)
			s = s.again(t, "--test-clock")
			k.on(s)
			w = &window{caller: k.caller}
			w.to(day.Add(time.Hour))
			sink = k.hear("?type=limit.exceeded", heard[1].ID)
			for i, id := range []string{"u1", "u2"} {
				is(t, "told of", heard[i].Subject.ID, id)
			}
		}
		ask("u1", false)
	}
	w.to(day.Add(90*time.Minute + time.Second))
	ask("u1", false)
	third := sink.await(t, 1)
	is(t, "told after the restart", len(third), 1)
	is(t, "told of", third[0].Subject.ID, "u1")
}

func TestCase_O16_TheDayTurnsAtEightInTheMorning(t *testing.T) {
	t.Parallel()
	t.Run("TZ in the environment", func(t *testing.T) {
		t.Parallel()
		s := devIn(t, filepath.Join(t.TempDir(), "data"), []string{"TZ=Asia/Shanghai"}, "--test-clock", "--memory")
		k := &tale{caller: s.admin(t), id: "u1", action: "o16"}
		w := &window{caller: k.caller}
		k.limit(`{"name":"o16","subjectKind":"user","action":"o16","amount":5,"window":"day"}`)
		day := w.next(24 * time.Hour)
		for _, step := range []struct {
			at      time.Duration
			allowed int
			resets  time.Duration
		}{
			{16*time.Hour + time.Second, 5, 24 * time.Hour}, // midnight in Shanghai
			{24*time.Hour - time.Minute, 0, 24 * time.Hour},
			{24*time.Hour + time.Second, 5, 48 * time.Hour},
		} {
			w.to(day.Add(step.at))
			is(t, fmt.Sprintf("allowed of 6 at %s", step.at), k.allowed(6, func() api.CheckAnswer {
				a := k.consume(1)
				if v := a.Limits[0]; v.ResetsAt == nil || !v.ResetsAt.Equal(day.Add(step.resets)) {
					t.Errorf("at %s: resetsAt %v, want %s", step.at, v.ResetsAt, day.Add(step.resets))
				}
				return a
			}), step.allowed)
		}
	})
	t.Run("TZ in the settings file", func(t *testing.T) {
		t.Parallel()
		// There is no such setting, so it cannot come too late: the file is refused.
		dir := t.TempDir()
		file := filepath.Join(dir, "settings.yaml")
		if err := os.WriteFile(file, []byte("TZ: Asia/Shanghai\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := start(dir, nil, "dev", "--config", file, "--data-dir", filepath.Join(dir, "data"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		if code, err := p.wait(generous); err != nil || code != 2 || !strings.Contains(p.out.String(), `"TZ" is not a setting`) {
			t.Errorf("exit %d, %v, want 2 and that TZ is not a setting; it said:\n%s", code, err, &p.out)
		}
	})
}

func TestCase_O17_AskingKeepsOneOut(t *testing.T) {
	t.Parallel()
	k, w := clocked(t, "o17", "--memory")
	k.limit(`{"name":"o17","subjectKind":"user","action":"o17","amount":10,"window":"minute","rolling":true}`)
	for try := range 10 {
		k.id = fmt.Sprintf("u%d", try+1)
		allowed, ok := askEachSecond(k, w, 180)
		if !ok {
			continue // the machine stood still at a second that counts
		}
		total := 0
		for second, n := range allowed {
			want := 0
			if second < 5 || second >= 61 && second < 66 || second >= 122 && second < 127 {
				want = 2
			}
			is(t, fmt.Sprintf("allowed of 2 in second %d", second), n, want)
			total += n
		}
		is(t, "allowed", total, 30)
		return
	}
	t.Error("no run of ten kept to its seconds")
}

// askEachSecond makes two calls in each second of the server's clock and tells how many of each
// second were allowed. The second call of the case comes half a second later; a slice is a whole
// second, so that it makes no difference. ok is false when a call may have fallen into another
// second at the begin or the end of a span in which calls are allowed; within the long spans of
// refusals a second may be missed.
func askEachSecond(k *tale, w *window, seconds int) (allowed map[int]int, ok bool) {
	k.t.Helper()
	counts := func(n int) bool { return n <= 5 || n >= 60 && n <= 66 || n >= 121 && n <= 127 }
	w.next(time.Minute)
	start := w.now().Truncate(time.Second).Add(time.Second)
	second := func() int { return int(w.now().Sub(start) / time.Second) }
	allowed = map[int]int{}
	for n := 0; n < seconds; n++ {
		if into := w.now().Sub(w.now().Truncate(time.Second)); into > 600*time.Millisecond {
			until(k.t, time.Now().Add(time.Second-into)) // over the edge, which the calls must not straddle
		}
		w.to(start.Add(time.Duration(n) * time.Second))
		if now := second(); now != n {
			if counts(n) || counts(now) {
				return nil, false
			}
			n = now
		}
		allowed[n] += k.allowed(2, func() api.CheckAnswer { return k.consume(1) })
		if now := second(); now != n && (counts(n) || counts(now)) {
			return nil, false
		}
	}
	return allowed, true
}

func TestCase_O18_RetryInZeroSeconds(t *testing.T) {
	t.Parallel()
	k, w := clocked(t, "o18", "--memory")
	k.limit(`{"name":"o18","subjectKind":"user","action":"o18","amount":5,"window":"minute"}`)
	minute := w.next(time.Minute)
	w.to(minute.Add(59 * time.Second))
	is(t, "allowed of 5", k.allowed(5, func() api.CheckAnswer { return k.consume(1) }), 5)
	asked := w.now()
	sixth := k.consume(1)
	r := k.post("/v1/reservations", k.body(`"cost":1`))
	if asked.Before(minute.Add(time.Minute)) && w.now().Before(minute.Add(time.Minute)) {
		is(t, "retryAfterSeconds", told(sixth.RetryAfterSeconds), "1")
		refusal(t, r, api.QuotaExceeded)
		is(t, "Retry-After", r.header.Get("Retry-After"), "1")
	}
	t.Run("step 3: 200 waits, each as long as told", func(t *testing.T) { obey(t, k, w) })
	t.Run("step 4", func(t *testing.T) { t.Skip("issue 4: the Go client") })
}

// obey fills limits of every kind at random instants, is refused, waits exactly what it is told
// and must pass.
func obey(t *testing.T, k *tale, w *window) {
	kinds := []string{
		`"window":"second"`, `"window":"minute"`, `"window":"hour"`, `"window":"day"`, `"window":"week"`, `"window":"month"`,
		`"window":"minute","rolling":true`, `"window":"hour","rolling":true`, `"window":"day","rolling":true`,
		`"window":"bucket","refillPerSecond":0.3`,
	}
	const amount = 7
	for i, kind := range kinds {
		k.limit(fmt.Sprintf(`{"name":"o18-%d","subjectKind":"user","action":"o18-%d","amount":%d,%s}`, i, i, amount, kind))
	}
	rnd := rand.New(rand.NewPCG(18, 18))
	for n := range 200 {
		one := tale{caller: k.caller, id: fmt.Sprint("o", n), action: fmt.Sprint("o18-", n%len(kinds))}
		w.forward(time.Duration(1+rnd.IntN(100_000)) * time.Second)
		cost := 1 + rnd.IntN(amount)
		var a api.CheckAnswer
		for range 2 * amount { // a second's window may pass while it is being filled
			if a = one.consume(cost); !a.Allowed {
				break
			}
			if rnd.IntN(3) == 0 && !strings.Contains(kinds[n%len(kinds)], "second\"") {
				w.forward(time.Duration(1+rnd.IntN(3)) * time.Second)
			}
		}
		if a.Allowed {
			if kinds[n%len(kinds)] != `"window":"second"` {
				t.Errorf("%s, cost %d: never refused", kinds[n%len(kinds)], cost)
			}
			continue
		}
		if a.RetryAfterSeconds == nil || *a.RetryAfterSeconds < 1 {
			t.Fatalf("%s, cost %d: retryAfterSeconds %s, want 1 or more", kinds[n%len(kinds)], cost, told(a.RetryAfterSeconds))
		}
		w.forward(time.Duration(*a.RetryAfterSeconds) * time.Second)
		if again := one.consume(cost); !again.Allowed {
			t.Errorf("%s, cost %d: told to wait %d s and refused again: %+v", kinds[n%len(kinds)], cost, *a.RetryAfterSeconds, again)
		}
	}
}
