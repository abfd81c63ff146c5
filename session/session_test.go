package session

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/store/memory"
)

var testKey = []byte("0123456789abcdef0123456789abcdef")

// inBubble runs f with two replicas of one keyspace, in fake time.
func inBubble(t *testing.T, f func(t *testing.T, one, two *Keeper)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Config{Now: time.Now, CheckValues: true})
		ctx, cancel := context.WithCancel(t.Context())
		wheel := store.Leases("", time.Now)
		var running sync.WaitGroup
		running.Go(func() { wheel.Run(ctx) })
		defer func() { cancel(); running.Wait() }()
		synctest.Wait()
		keeper := func() *Keeper {
			k, err := New(Config{Store: store.View(""), Leases: wheel, Key: testKey, Now: time.Now})
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			return k
		}
		f(t, keeper(), keeper())
	})
}

func dana() auth.Principal {
	return auth.Principal{
		Tenant: "default", Issuer: "https://issuer.test", Subject: limits.Subject{Kind: "user", ID: "dana"},
		Scopes: auth.ParseScopes("holds:force limits:read"),
	}
}

func TestNew_TellsAllThatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Key: []byte("short")})
	for _, want := range []string{"Store", "Leases", "Now", "Key"} {
		if err == nil || !strings.Contains(err.Error(), "Config."+want) {
			t.Errorf("New: got %v, want it to name %s", err, want)
		}
	}
}

func TestSession_OpensOnEveryReplicaUntilItIsEnded(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *Keeper) {
		sealed, s, err := one.Start(dana())
		if err != nil {
			t.Fatal(err)
		}
		got, err := two.Open(t.Context(), sealed)
		if err != nil || got.ID != s.ID || got.Who.ID() != dana().ID() || got.Who.Tenant != "default" || got.Who.Scopes != dana().Scopes {
			t.Fatalf("Open on the other replica: got %+v, %v, want the session of %s", got, err, dana().ID())
		}
		if !got.Who.Has(auth.HoldsRead) || got.Who.Has(auth.LimitsWrite) {
			t.Errorf("scopes: got %q, want those of the token and what they include", got.Who.Scopes)
		}
		if got.Who.MayActFor(limits.Subject{Kind: "user", ID: "other"}) {
			t.Error("a session acts for nobody but its own subject")
		}
		for range 2 {
			if err := two.End(t.Context(), got); err != nil {
				t.Fatalf("End: %v", err)
			}
		}
		if _, err := one.Open(t.Context(), sealed); !errors.Is(err, ErrNoSession) {
			t.Errorf("Open after the sign-out: got %v, want ErrNoSession", err)
		}
	})
}

func TestSession_EndsByItself(t *testing.T) {
	inBubble(t, func(t *testing.T, one, _ *Keeper) {
		short := dana()
		short.ExpiresAt = time.Now().Add(time.Hour)
		for _, c := range []struct { // in this order: the token runs meanwhile
			name string
			who  auth.Principal
			life time.Duration
		}{
			{"with its token", short, time.Hour},
			{"after twelve hours at the most", dana(), MaxLife},
		} {
			began, name := time.Now(), c.name
			sealed, s, err := one.Start(c.who)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := s.Who.ExpiresAt.Sub(began); got > c.life || got < c.life-time.Second {
				t.Errorf("%s: it lasts %s, want %s", name, got, c.life)
			}
			time.Sleep(c.life - 2*time.Second)
			if _, err := one.Open(t.Context(), sealed); err != nil {
				t.Errorf("%s: just before: %v", name, err)
			}
			time.Sleep(2 * time.Second)
			if _, err := one.Open(t.Context(), sealed); !errors.Is(err, ErrNoSession) {
				t.Errorf("%s: after it: got %v, want ErrNoSession", name, err)
			}
		}
		if _, _, err := one.Start(short); !errors.Is(err, ErrNoSession) {
			t.Errorf("Start with a token that is over: got %v, want ErrNoSession", err)
		}
	})
}

func TestSession_ForgedOnesAreNone(t *testing.T) {
	inBubble(t, func(t *testing.T, one, _ *Keeper) {
		sealed, _, err := one.Start(dana())
		if err != nil {
			t.Fatal(err)
		}
		other, err := New(Config{Store: one.cfg.Store, Leases: one.cfg.Leases, Now: time.Now, Key: []byte(strings.Repeat("x", leastKey))})
		if err != nil {
			t.Fatal(err)
		}
		foreign, _, err := other.Start(dana())
		if err != nil {
			t.Fatal(err)
		}
		link, err := one.seal.close(linkSeal, claimsOf(Session{ID: "x", Who: bounded(dana(), time.Now())}))
		if err != nil {
			t.Fatal(err)
		}
		flipped := []byte(sealed)
		flipped[len(flipped)/2] ^= 1
		for name, text := range map[string]string{
			"nothing": "", "no base64": "%%%", "short": "AAAA", "one bit": string(flipped), "cut": sealed[:len(sealed)-4],
			"another server's": foreign, "a link's": link, "a long one": strings.Repeat("A", MaxSealed+1), "padded": sealed + "=",
		} {
			if _, err := one.Open(t.Context(), text); !errors.Is(err, ErrNoSession) {
				t.Errorf("%s: got %v, want ErrNoSession", name, err)
			}
		}
	})
}

func TestSession_NamesTooLongForACookie(t *testing.T) {
	inBubble(t, func(t *testing.T, one, _ *Keeper) {
		long := dana()
		long.Issuer = "https://" + strings.Repeat("i", MaxSealed)
		if _, _, err := one.Start(long); !errors.Is(err, ErrTooLong) {
			t.Errorf("Start: got %v, want ErrTooLong", err)
		}
		if _, _, err := one.Link(t.Context(), long); !errors.Is(err, ErrTooLong) {
			t.Errorf("Link: got %v, want ErrTooLong", err)
		}
	})
}

func TestLink_SignsInOnceWhoeverAsks(t *testing.T) {
	inBubble(t, func(t *testing.T, one, two *Keeper) {
		code, expires, err := one.Link(t.Context(), dana())
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Until(expires); got > LinkLife || got < LinkLife-time.Second {
			t.Errorf("the link lasts %s, want %s", got, LinkLife)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		var won []string
		for i := range 8 {
			k := []*Keeper{one, two}[i%2]
			all.Go(func() {
				sealed, _, err := k.Redeem(t.Context(), code)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, sealed)
				} else if !errors.Is(err, ErrNoLink) {
					t.Errorf("Redeem: got %v, want ErrNoLink", err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			t.Fatalf("%d of 8 were signed in by one link, want 1", len(won))
		}
		s, err := two.Open(t.Context(), won[0])
		if err != nil || s.Who.ID() != dana().ID() || s.Who.Scopes != dana().Scopes {
			t.Errorf("the session: got %+v, %v, want that of %s", s, err, dana().ID())
		}
	})
}

func TestLink_IsWorthNothingAfterItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, one, _ *Keeper) {
		code, _, err := one.Link(t.Context(), dana())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(LinkLife)
		if _, _, err := one.Redeem(t.Context(), code); !errors.Is(err, ErrNoLink) {
			t.Errorf("after its time: got %v, want ErrNoLink", err)
		}
		for _, wrong := range []string{"", "k7Qm-2fRw", "k7Qm2fRw", strings.Repeat("k", 4096), "k7Qm\x002fRw"} {
			if _, _, err := one.Redeem(t.Context(), wrong); !errors.Is(err, ErrNoLink) {
				t.Errorf("code %q: got %v, want ErrNoLink", wrong, err)
			}
		}
	})
}

func TestCode_IsDrawnFromItsAlphabet(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1_000 {
		code := newCode()
		if len(code) != codeLength || code[codeGroup] != '-' || strings.Trim(code, codeAlphabet+"-") != "" || seen[code] {
			t.Fatalf("code %q: want a new one of two groups of %d", code, codeGroup)
		}
		seen[code] = true
	}
}
