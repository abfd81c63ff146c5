package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
	"github.com/holdfast-dev/holdfast/client/middleware"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upstream is an API that allows two calls at once and complains of a third.
func upstream(t *testing.T) (pages []string, base *http.Transport) {
	t.Helper()
	var now atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if now.Add(1) > 2 {
			t.Errorf("%s came beside two others", r.URL)
		}
		defer now.Add(-1)
		_, err := fmt.Fprintln(w, "a page")
		if err != nil && !errors.Is(err, http.ErrAbortHandler) {
			t.Error(err)
		}
	}))
	base = &http.Transport{}
	t.Cleanup(func() { base.CloseIdleConnections(); s.Close() })
	for i := range 20 {
		pages = append(pages, fmt.Sprintf("%s/%d", s.URL, i))
	}
	return pages, base
}

func dial(t *testing.T, s *holdfasttest.Server) *client.Client {
	t.Helper()
	t.Setenv("HOLDFAST_URL", s.URL())
	t.Setenv("HOLDFAST_TOKEN", s.Token("reader"))
	c, err := client.New(client.FromEnv())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Eight at a time want to call an API that allows two at once: all get their page, and none is
// one too many. Two clients stand for two copies of the program.
func TestRead_HoldsASlotUntilTheAnswerWasRead(t *testing.T) {
	s := holdfasttest.New(t, holdfasttest.Limits(
		api.LimitInput{ID: "theirs", Name: "theirs", SubjectKind: "*", Action: "call", Amount: 2, Window: "concurrent", Share: "all"},
	))
	pages, base := upstream(t)
	done := make(chan string, 2)
	for _, half := range [][]string{pages[:10], pages[10:]} {
		theirs := &http.Client{Transport: &middleware.Transport{Client: dial(t, s), Action: "call", Reserve: true, Base: base}}
		go func() {
			var out bytes.Buffer
			failed := read(t.Context(), theirs, half, &out)
			done <- fmt.Sprintf("%d failed, %d read", failed, strings.Count(out.String(), "7 bytes"))
		}()
	}
	for range 2 {
		if got := <-done; got != "0 failed, 10 read" {
			t.Errorf("%s, want ten pages", got)
		}
	}
}

// A limit that is used up for good fails the request before it is sent.
func TestRead_Counts(t *testing.T) {
	s := holdfasttest.New(t, holdfasttest.Limits(
		api.LimitInput{ID: "theirs", Name: "theirs", SubjectKind: "user", Action: "call", Amount: 3, Window: "total"},
	))
	pages, base := upstream(t)
	theirs := &http.Client{Transport: &middleware.Transport{Client: dial(t, s), Action: "call", Base: base}}
	var out bytes.Buffer
	failed := 0
	for _, page := range pages[:5] { // one after the other: this API complains of a third at once
		failed += read(t.Context(), theirs, []string{page}, &out)
	}
	if failed != 2 || strings.Count(out.String(), "7 bytes") != 3 || !strings.Contains(out.String(), "quota-exceeded") {
		t.Errorf("%d failed of 5, want 2 refused:\n%s", failed, &out)
	}
}
