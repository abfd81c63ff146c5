package reserve_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/reserve"
	"github.com/holdfast-dev/holdfast/windows"
)

// What somebody edited by hand in the store is found and named; what is right is not.
func TestDrift_PlantedIsNamed(t *testing.T) {
	t.Parallel()
	ls := []limits.Limit{slots("exports", 9), counted("units", 1000, windows.Window{Kind: windows.Day})}
	inBubble(t, ls, func(r *rig) {
		a, b := r.granted(ask(u42, 5, time.Hour)), r.granted(ask(u42, 7, time.Hour))
		r.granted(ask(limits.Subject{Kind: "user", ID: "other"}, 3, time.Hour))
		drift := func(want ...string) {
			t.Helper()
			findings, checked, err := r.Drift(r.ctx(), tenant)
			if err != nil || checked["records"] == 0 || checked["slots"] != 3 {
				t.Fatalf("Drift: %v, checked %v", err, checked)
			}
			var got []string
			for _, f := range findings {
				got = append(got, f.Kind+" "+f.Where)
			}
			if strings.Join(got, "; ") != strings.Join(want, "; ") {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		write := func(ref reserve.Ref, value any) {
			t.Helper()
			g := reserve.Group{Tenant: tenant, Catalog: reserve.AnyCatalog, Writes: []reserve.Write{{Ref: ref, Value: value}}}
			if _, err := r.store.Apply(r.ctx(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // the watch has told it
		}
		stands := func(ref reserve.Ref) any {
			t.Helper()
			got, err := r.store.Load(r.ctx(), []reserve.Ref{ref}, true)
			if err != nil || got.Entries[0].Value == nil {
				t.Fatalf("Load(%+v): %+v, %v", ref, got, err)
			}
			return got.Entries[0].Value
		}
		drift()

		usage := reserve.Ref{Tenant: tenant, Kind: reserve.RefUsage, Scope: u42.Scope()}
		before := stands(usage).(reserve.Counts)
		lowered := append(reserve.Counts(nil), before...)
		lowered[0].Use.Counts = append([]windows.Count(nil), lowered[0].Use.Counts...)
		lowered[0].Use.Counts[0].Cost = 11
		write(usage, lowered)
		drift("count-low units user:u_42")
		write(usage, before)
		drift()

		open := reserve.Ref{Tenant: tenant, Kind: reserve.RefOpen, ID: a.ID}
		edited := *stands(open).(*reserve.Record)
		edited.Cost = 6
		write(open, &edited) // whoever edits a record breaks it off from its slots
		drift("slots-missing " + a.ID.String())

		write(reserve.Ref{Tenant: tenant, Kind: reserve.RefOpen, ID: b.ID}, nil)
		drift("slots-missing "+a.ID.String(), "record-missing "+b.ID.String())
	})
}

// Holds that come and go while it looks are no findings.
func TestDrift_NothingUnderLoad(t *testing.T) {
	t.Parallel()
	ls := []limits.Limit{slots("exports", 1000), counted("units", 1_000_000, windows.Window{Kind: windows.Day})}
	inBubble(t, ls, func(r *rig) {
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if res, d, err := r.Reserve(r.ctx(), ask(u42, 5, time.Minute)); err == nil && d.Allowed {
					time.Sleep(time.Millisecond)
					_, _ = r.Release(r.ctx(), mine(res.ID), "") // its end, not its answer, is of interest
				}
			}
		}()
		for range 20 {
			time.Sleep(3 * time.Millisecond)
			if findings, _, err := r.Drift(r.ctx(), tenant); err != nil || len(findings) != 0 {
				t.Errorf("Drift: got %v, %v; want nothing", findings, err)
			}
		}
		close(stop)
		<-done
	})
}

// One run goes through every tenant.
func TestSweep_EveryTenant(t *testing.T) {
	t.Parallel()
	inBubble(t, []limits.Limit{slots("exports", 9)}, func(r *rig) {
		for _, name := range []string{"a", "b", "c"} {
			var g reserve.Group
			g.Tenant, g.Catalog = name, reserve.AnyCatalog
			for n := range 4 {
				id := reserve.ID{byte(n + 1)}
				rec := &reserve.Record{ID: id, State: reserve.Held, Subject: u42, Action: "export", TTL: time.Minute}
				g.Writes = append(g.Writes, reserve.Write{Ref: reserve.Ref{Tenant: name, Kind: reserve.RefOpen, ID: id}, Value: rec})
			}
			if _, err := r.store.Apply(r.ctx(), reserve.Batch{Groups: []reserve.Group{g}}); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := r.Sweep(r.ctx(), 6); err != nil || n != 6 {
			t.Errorf("a batch of 6: got %d, %v", n, err)
		}
		if n, err := r.Sweep(r.ctx(), 100); err != nil || n < 6 || n >= 100 {
			t.Errorf("the rest: got %d, %v; want at least the 6 that are left", n, err)
		}
		time.Sleep(20 * time.Second) // settled through the desk
		for _, name := range []string{"a", "b", "c"} {
			if left, err := r.store.Records(r.ctx(), name, reserve.RefOpen, reserve.ID{}, 10); err != nil || len(left) != 0 {
				t.Errorf("tenant %s: got %d open records without slots, %v; want them settled", name, len(left), err)
			}
		}
	})
}
