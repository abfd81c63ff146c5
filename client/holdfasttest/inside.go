package holdfasttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
)

// ask is one request of an administrator, past all trouble.
func (s *Server) ask(method, path string, body any, header http.Header, into any) (status int, answer []byte) {
	s.t.Helper()
	var sent io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			s.t.Fatalf("holdfasttest: %T: %v", body, err)
		}
		sent = bytes.NewReader(encoded)
	}
	req := httptest.NewRequest(method, path, sent)
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+s.Token("holdfasttest", "admin"))
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	h := s.public
	if strings.HasPrefix(path, "/admin/") {
		h = s.admin
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	if into != nil && rec.Code/100 == 2 {
		if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
			s.t.Fatalf("holdfasttest: %s %s answered %s: %v", method, path, rec.Body, err)
		}
	}
	return rec.Code, rec.Body.Bytes()
}

// roundTripper hands requests to a handler in this process.
type roundTripper struct{ handler http.Handler }

var errCut = errors.New("holdfasttest: the connection was cut without an answer")

// RoundTrip serves a copy of the request and gives its answer back. It returns when the
// request's context ends, as a connection would, while the handler sees its caller hang up.
func (rt roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	inside := r.Clone(r.Context())
	inside.RequestURI, inside.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
	inside.Host = r.URL.Host
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
		inside.Body, inside.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	} else {
		inside.Body = http.NoBody
	}
	done := make(chan *http.Response, 1)
	go func() { done <- serve(rt.handler, inside) }()
	select {
	case resp := <-done:
		if resp == nil {
			return nil, errCut
		}
		resp.Request = r
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// serve is nil when the handler cut the connection.
func serve(h http.Handler, r *http.Request) (resp *http.Response) {
	defer func() {
		if p := recover(); p != nil {
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			resp = nil
		}
	}()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result()
}
