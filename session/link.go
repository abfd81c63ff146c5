package session

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
)

// A link's code is two groups of four characters that are not taken for one another: 46 bits,
// good for ten minutes, behind the guard that slows down whoever guesses.
const (
	codeAlphabet = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz"
	codeGroup    = 4
	codeLength   = 2*codeGroup + 1
)

// Link makes a code that signs who in once, within LinkLife: the bearer gets a session with
// who's scopes, which ends when Start's would. expires is when the code is worth nothing.
// Errors: ErrTooLong, ErrNoSession as Start; those of the store.
// Cost: one write on a lease.
func (k *Keeper) Link(ctx context.Context, who auth.Principal) (code string, expires time.Time, err error) {
	now := k.cfg.Now()
	s := Session{ID: randomID(), Who: bounded(who, now)}
	if !s.Who.ExpiresAt.After(now) {
		return "", time.Time{}, ErrNoSession
	}
	c := claimsOf(s)
	expires = now.Add(LinkLife).UTC().Truncate(time.Second)
	c.LinkUntil = expires.Unix()
	sealed, err := k.seal.close(linkSeal, c)
	if err != nil {
		return "", time.Time{}, err
	}
	if len(sealed) > MaxSealed {
		return "", time.Time{}, ErrTooLong
	}
	code = newCode()
	_, err = k.apply(ctx, reserve.Group{
		Catalog: reserve.AnyCatalog,
		Guards:  []reserve.Guard{{Ref: linkRef(code), Cond: reserve.ModIs, Rev: 0}},
		Writes:  []reserve.Write{{Ref: linkRef(code), Value: reserve.Secret(sealed), Keep: LinkLife}},
	})
	return code, expires, err
}

// Redeem follows a link: the first who does is signed in, everybody else is refused.
// Errors: ErrNoLink; those of the store, after reserve.ErrUnknownOutcome the link may be spent.
// Cost: one fresh read, and one write for a good link.
func (k *Keeper) Redeem(ctx context.Context, code string) (sealed string, s Session, err error) {
	if len(code) != codeLength {
		return "", Session{}, ErrNoLink
	}
	ref := linkRef(code)
	got, err := k.cfg.Store.Load(ctx, []reserve.Ref{ref}, true)
	if err != nil {
		return "", Session{}, err
	}
	var c claims
	value, _ := got.Entries[0].Value.(reserve.Secret)
	if got.Entries[0].Mod == 0 || !k.seal.open(linkSeal, string(value), &c) || c.LinkUntil <= k.cfg.Now().Unix() {
		return "", Session{}, ErrNoLink
	}
	won, err := k.apply(ctx, reserve.Group{
		Catalog: reserve.AnyCatalog,
		Guards:  []reserve.Guard{{Ref: ref, Cond: reserve.ModIs, Rev: got.Entries[0].Mod}},
		Writes:  []reserve.Write{{Ref: ref}},
	})
	switch {
	case err != nil:
		return "", Session{}, err
	case !won:
		return "", Session{}, ErrNoLink
	}
	c.LinkUntil = 0
	s = c.session()
	sealed, err = k.seal.close(sessionSeal, c)
	return sealed, s, err
}

// linkRef is where a link is kept: under a hash, so that whoever lists keys learns no code.
func linkRef(code string) reserve.Ref {
	sum := sha256.Sum256([]byte("holdfast link " + code))
	return reserve.Ref{Kind: reserve.RefSecret, Scope: "link-" + hex.EncodeToString(sum[:idBytes])}
}

// newCode draws a code, every character alike: bytes past the last whole round are drawn again.
func newCode() string {
	const rounds = 256 / len(codeAlphabet) * len(codeAlphabet)
	code := make([]byte, 0, codeLength)
	for len(code) < codeLength {
		if len(code) == codeGroup {
			code = append(code, '-')
		}
		var b [1]byte
		_, _ = rand.Read(b[:])
		if int(b[0]) < rounds {
			code = append(code, codeAlphabet[int(b[0])%len(codeAlphabet)])
		}
	}
	return string(code)
}
