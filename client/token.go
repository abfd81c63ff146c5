package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// TokenSource gives a bearer token (without the word Bearer). It is asked when there is none
// yet, at 80 % of the token's life, and once after the server refused one; never twice at once.
// A source that has nothing newer gives the same again.
type TokenSource interface {
	Token(ctx context.Context) (string, error)
}

// TokenFunc is a function as a TokenSource.
type TokenFunc func(ctx context.Context) (string, error)

// Token calls f.
func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

// StaticToken is one token for ever: when it expires, calls fail with ErrUnauthorized.
func StaticToken(token string) TokenSource {
	return TokenFunc(func(context.Context) (string, error) { return token, nil })
}

// TokenFile is the token in a file, which others may replace: it is read again when the token
// ages.
func TokenFile(path string) TokenSource {
	return TokenFunc(func(context.Context) (string, error) {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(string(data)), nil
	})
}

// Bounds of how often a source is asked.
const (
	lifeFraction = 0.8              // of a token's life, after which a new one is asked for
	askAgain     = 10 * time.Second // at least, when the source gave nothing newer or failed
	unreadable   = time.Minute      // a token whose life cannot be read is asked for again after that
	askWithin    = 10 * time.Second // of one call of the source
)

// errNoToken says that a source never gave a token, which repeating does not mend.
var errNoToken = fmt.Errorf("%w: no token", ErrUnauthorized)

// tokens remembers the last token of a source.
type tokens struct {
	source TokenSource
	turn   chan struct{} // holds one element while nobody asks: a lock that a context can leave

	token   string
	renewAt time.Time // wall clock
	expires time.Time // zero: not known
}

func newTokens(source TokenSource) *tokens {
	t := &tokens{source: source, turn: make(chan struct{}, 1)}
	t.turn <- struct{}{}
	return t
}

// get is the token to use now. A token that still lives is used when the source fails.
// Errors: ErrUnauthorized with the source's.
func (t *tokens) get(ctx context.Context, now time.Time) (string, error) {
	if err := t.enter(ctx); err != nil {
		return "", err
	}
	defer t.leave()
	if t.token != "" && now.Before(t.renewAt) {
		return t.token, nil
	}
	err := t.ask(ctx, now)
	if err != nil && (t.token == "" || !t.expires.IsZero() && now.After(t.expires)) {
		return "", err
	}
	return t.token, nil
}

// after is the token to use once the server has refused one: another, or "" when the source
// has none. Whoever comes second with the same refused token gets what the first was given.
func (t *tokens) after(ctx context.Context, refused string, now time.Time) (string, error) {
	if err := t.enter(ctx); err != nil {
		return "", err
	}
	defer t.leave()
	if t.token == refused {
		if err := t.ask(ctx, now); err != nil {
			return "", err
		}
	}
	if t.token == refused {
		return "", nil
	}
	return t.token, nil
}

func (t *tokens) enter(ctx context.Context) error {
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *tokens) leave() { t.turn <- struct{}{} }

// ask gets a token of the source, and notes when to ask next.
func (t *tokens) ask(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	token, err := t.source.Token(ctx)
	if err == nil && token == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		t.renewAt = now.Add(askAgain)
		if t.token == "" {
			return fmt.Errorf("%w: %w", errNoToken, err)
		}
		return fmt.Errorf("%w: no newer token: %w", ErrUnauthorized, err)
	}
	newer := token != t.token
	issued, expires, known := lifeOf(token)
	t.token, t.expires, t.renewAt = token, expires, now.Add(unreadable)
	if known {
		t.renewAt = issued.Add(time.Duration(lifeFraction * float64(expires.Sub(issued))))
	}
	if soonest := now.Add(askAgain); !newer && t.renewAt.Before(soonest) {
		t.renewAt = soonest
	}
	return nil
}

// lifeOf reads when a JWT was issued and expires. It verifies nothing: that is the server's.
func lifeOf(token string) (issued, expires time.Time, known bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, expires, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return issued, expires, false
	}
	var claims struct {
		IssuedAt float64 `json:"iat"`
		Expires  float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.IssuedAt <= 0 || claims.Expires <= claims.IssuedAt {
		return issued, expires, false
	}
	return time.Unix(int64(claims.IssuedAt), 0), time.Unix(int64(claims.Expires), 0), true
}
