package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
)

// semaphores are what stands behind the plain front. Each has `semaphore` slots a key.
type semaphores interface {
	// acquire takes a slot of key for ttl; "" when none is free.
	acquire(ctx context.Context, key string, ttl time.Duration) (slot string, err error)
	release(ctx context.Context, key, slot string) error
	close()
}

// front is `bench front -jwks FILE KIND [ADDRESS]`: a plain Go server (net/http, encoding/json,
// the token verified once and remembered, as in Holdfast) over a semaphore of KIND. It speaks
// enough of Holdfast's API that the same generator drives it.
func front(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("front", flag.ContinueOnError)
	jwks := flags.String("jwks", "", "file of the key set to trust")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := untilEOF(ctx)
	defer cancel()
	keys, err := auth.JWKSFile(*jwks)
	if err != nil {
		return err
	}
	verifier, err := auth.NewVerifier(auth.Config{Issuer: issuer, Audience: audience, Keys: keys, Now: time.Now})
	if err != nil {
		return err
	}
	defer verifier.Close()
	if flags.Arg(0) == "handler" {
		return serveFront(ctx, deskless(verifier))
	}
	open := map[string]func(context.Context, string) (semaphores, error){"memory": openMemory, "redis": openRedis, "postgres": openPostgres}[flags.Arg(0)]
	if open == nil {
		return fmt.Errorf("front: %q is no semaphore", flags.Arg(0))
	}
	behind, err := open(ctx, flags.Arg(1))
	if err != nil {
		return err
	}
	defer behind.close()
	return serveFront(ctx, plainFront(verifier, behind))
}

// serveFront tells its address and serves until ctx ends.
func serveFront(ctx context.Context, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "http://%s\n", l.Addr())
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = s.Close() // nobody waits for an answer any more
	}()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// plainAsk and plainHold are the wire of the plain front.
type plainAsk struct {
	Subject    struct{ Kind, ID string }
	Action     string
	TTLSeconds int64
}

type plainHold struct {
	ID        string    `json:"id"`
	Subject   string    `json:"subject"`
	Action    string    `json:"action"`
	Slot      string    `json:"slot"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// idMark separates what an id is made of: the slot, and the key it is of.
const idMark = "."

func plainFront(verifier *auth.Verifier, behind semaphores) http.Handler {
	mux := http.NewServeMux()
	guarded := func(pattern string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if _, err := verifier.Verify(r.Context(), token); err != nil {
				http.Error(w, err.Error(), http.StatusUnauthorized)
				return
			}
			if err := fn(w, r); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	guarded("POST /v1/reservations", func(w http.ResponseWriter, r *http.Request) error {
		var ask plainAsk
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			return err
		}
		key, ttl := ask.Subject.ID, time.Duration(ask.TTLSeconds)*time.Second
		until := time.Now().Add(ttl)
		slot, err := behind.acquire(r.Context(), key, ttl)
		switch {
		case err != nil:
			return err
		case slot == "":
			w.WriteHeader(http.StatusTooManyRequests)
			return nil
		}
		return writeJSON(w, http.StatusCreated, plainHold{"rsv_" + slot + idMark + key, key, ask.Action, slot, until})
	})
	guarded("POST /v1/reservations/{id}/release", func(w http.ResponseWriter, r *http.Request) error {
		slot, key, _ := strings.Cut(strings.TrimPrefix(r.PathValue("id"), "rsv_"), idMark)
		if err := behind.release(r.Context(), key, slot); err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, map[string]string{"state": "released"})
	})
	return mux
}

func writeJSON(w http.ResponseWriter, status int, value any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(value)
}
