package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/catalogue"
	"github.com/holdfast-dev/holdfast/reserve"
)

// nowhere is a ResponseWriter that keeps nothing.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(s int)           { n.status = s }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkHot is one request of the busy routes with a remembered token, service and store in
// memory included. The handler's own part is to stay within about 40 allocations.
func BenchmarkHot(b *testing.B) {
	for name, body := range map[string]string{
		"consume": `{"action":"call","cost":1}`,
		"preview": `{"action":"call","mode":"preview"}`,
		"refused": `{"action":"none"}`,
		"reserve": `{"action":"call","mode":"reserve","ttlSeconds":300}`,
	} {
		b.Run(name, func(b *testing.B) { benchmarkCheck(b, body) })
	}
}

func benchmarkCheck(b *testing.B, body string) {
	t := &testing.T{}
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	wheel := r.store.Leases("", time.Now)
	service, err := reserve.New(reserve.Config{Store: r.view, Lister: r.view, Leases: wheel, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	defer func() { cancel(); <-done }()
	go wheel.Run(ctx)
	r.cfg.Service, r.cfg.Log = service, nil
	r.cfg.Editor, err = catalogue.New(catalogue.Config{Store: r.view, Leases: wheel, Now: time.Now, Catalog: service.Catalog})
	if err != nil {
		b.Fatal(err)
	}
	h, err := New(r.cfg)
	if err != nil {
		b.Fatal(err)
	}
	serve := func(method, path, token, body string) int {
		req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		return rec.Code
	}
	limit := `{"id":"calls","name":"calls","subjectKind":"user","action":"call","amount":1000000000,"window":"day"}`
	none := `{"id":"none","name":"none","subjectKind":"user","action":"none","amount":0,"window":"day"}`
	root := r.token("root", "admin")
	for _, l := range []string{limit, none} {
		if got := serve(http.MethodPost, "/v1/limits", root, l); got != http.StatusCreated {
			b.Fatalf("POST /v1/limits %s: got %d", l, got)
		}
	}
	token := r.token("u_42", "")
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/checks", nil)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	w := &nowhere{header: http.Header{}}
	reader := strings.NewReader(body)
	req.Body = io.NopCloser(reader)
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		clear(w.header)
		h.ServeHTTP(w, req)
	}
	if w.status != http.StatusOK {
		b.Fatalf("POST /v1/checks %s: got %d", body, w.status)
	}
}
