package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

func TestShort_IsReadAtAGlance(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 45 * time.Second: "45s", 3*time.Minute + 50*time.Second: "3m50s", 5 * time.Minute: "5m",
		time.Hour: "1h", time.Hour + 2*time.Minute + 3*time.Second: "1h2m", 87_012 * time.Second: "24h10m",
		48 * time.Hour: "2d", 76*time.Hour + 59*time.Minute: "3d4h",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%s): got %q, want %q", d, got, want)
		}
	}
}

func TestWaitNews_CountsDownWithoutNews(t *testing.T) {
	t.Parallel()
	full := func(detail, holder string) error {
		return &api.Problem{Code: api.NoFreeSlot, Detail: detail, Holders: []api.Holder{{ID: holder}}}
	}
	first := waitNews(full("the earliest expires in 22 s", "rsv_1"))
	if got := waitNews(full("the earliest expires in 21 s", "rsv_1")); got != first {
		t.Errorf("a sentence that counts down: got news %q after %q, want none", got, first)
	}
	for _, err := range []error{full("the earliest expires in 21 s", "rsv_2"), &api.Problem{Code: api.LimitPaused}, &unreachable{}} {
		if got := waitNews(err); got == first {
			t.Errorf("%v: got no news, want some", err)
		}
	}
}

func TestAmountWords_AreAsInTheContract(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]windows.Window{
		"2 an hour": {Kind: windows.Hour}, "2 a minute": {Kind: windows.Minute}, "2 a day": {Kind: windows.Day, Rolling: true},
	} {
		if got := amountWords(&limits.Limit{Amount: 2, Window: w}); got != want {
			t.Errorf("amountWords(2, %+v): got %q, want %q", w, got, want)
		}
	}
}

func TestContextToken_OfADevelopmentServerThatIsGone(t *testing.T) {
	t.Parallel()
	a := newApp(nil, &bytes.Buffer{}, &bytes.Buffer{}, &bytes.Buffer{})
	_, err := a.contextToken(&savedContext{Name: "dev", KeyFile: t.TempDir() + "/key.pem", Issuer: devIssuer})
	if failed := a.explain(err); failed.exit != exitDenied || len(failed.hints) == 0 || failed.hints[0].do != "holdfast dev" {
		t.Errorf("got %+v, want exit 4 and holdfast dev first", failed)
	}
}
