package middleware

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// Handler guards next: what may not pass is answered with a problem document and never reaches
// it. Every answer carries RateLimit and RateLimit-Policy, a refusal Retry-After.
//
// Behind a guard that reserves, the request's context ends when the hold is lost. An answer below
// 500 commits the hold; one of 500 and more, or a panic, which goes on, releases it.
//
// The cost of a route is found under the pattern a mux matched before the guard, or else under
// the method and path as they are.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pass := g.Admit(w, r, r.Pattern, r.Method+" "+r.URL.Path)
		if pass == nil {
			return
		}
		ctx, cancel := pass.Within(r.Context())
		defer cancel()
		seen := &watched{ResponseWriter: w}
		done := false
		defer func() { pass.Leave(ctx, done && seen.status < http.StatusInternalServerError) }()
		next.ServeHTTP(seen, r.WithContext(ctx))
		done = true
	})
}

// Admit asks for a request, and sets the headers of its answer. nil: it has been answered.
func (g *Guard) Admit(w http.ResponseWriter, r *http.Request, routes ...string) *Pass {
	subject := g.Subject(r.Context(), Caller{r.RemoteAddr, r.Header.Values("Authorization"), r.Header.Values("X-Forwarded-For")})
	pass, err := g.Enter(r.Context(), subject, routes...)
	if err != nil {
		g.Explain(err).write(w)
		return nil
	}
	setRateLimit(w.Header(), pass.RateLimit, pass.RateLimitPolicy)
	return pass
}

func setRateLimit(h http.Header, rateLimit, policy string) {
	if rateLimit != "" {
		h.Set("RateLimit", rateLimit)
	}
	if policy != "" {
		h.Set("RateLimit-Policy", policy)
	}
}

// write answers with a problem document (RFC 9457).
func (a Answer) write(w http.ResponseWriter) {
	p := api.NewProblem(a.Code, a.Detail)
	setRateLimit(w.Header(), a.RateLimit, a.RateLimitPolicy)
	if seconds := int64(a.RetryAfter / time.Second); seconds > 0 && a.Code.RetryAfter() {
		p.RetryAfterSeconds = &seconds
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	body, err := json.Marshal(&p)
	if err != nil {
		panic("holdfast middleware: " + err.Error()) // a problem always has a JSON form
	}
	w.Header().Set("Content-Type", api.ProblemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // nobody is left to be told
}

// watched notes the status of an answer.
type watched struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status; that of an interim answer is not the answer's.
func (w *watched) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush is for handlers that ask for an http.Flusher.
func (w *watched) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach what is below.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
