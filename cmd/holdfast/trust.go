package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-dev/holdfast/auth"
)

// Who a development server's tokens come from and are for, and for whom its own one is.
const (
	devIssuer   = "holdfast-dev"
	devAudience = "holdfast"
	devSubject  = "dev"
	devScope    = "admin"
)

// trust is whose tokens a server accepts.
type trust struct {
	issuer, audience string
	keys             auth.KeySource
	jwks             []byte // public keys that the server itself shows; nil for none
}

func (t trust) verifier(now func() time.Time, log *slog.Logger, metrics prometheus.Registerer) (*auth.Verifier, error) {
	v, err := auth.NewVerifier(auth.Config{Issuer: t.issuer, Audience: t.audience, Keys: t.keys, Now: now, Log: log, Metrics: metrics})
	if err != nil {
		return nil, fail(exitUsage, "tokens cannot be verified like that: %w", err)
	}
	return v, nil
}

// trusted reads whose tokens serve accepts. There is no default: a server that trusts nobody
// in particular does not start.
func (c *serverConfig) trusted() (trust, error) {
	t := trust{issuer: c.Issuer, audience: c.Audience}
	sources := map[string]string{"--jwks-url": c.JWKSURL, "--jwks-file": c.JWKSFile, "--jwt-public-key": c.PublicKey, "--jwt-hs256-secret-file": c.HS256SecretFile}
	var given string
	for flag, value := range sources {
		if value == "" {
			continue
		}
		if given != "" {
			return t, usage("%s and %s: tokens are trusted by one kind of key", min(given, flag), max(given, flag))
		}
		given = flag
	}
	if missing := c.untold(given); len(missing) > 0 && (given != "" || c.Issuer != "" || c.Audience != "") {
		return t, usage("whose tokens to trust is told in part: %s is missing", strings.Join(missing, " and ")).
			next("all three", "keys, --jwt-issuer and --jwt-audience").next("help", "holdfast serve --help")
	}
	if given == "" {
		return t, usage("a server must be told whose tokens to trust").
			next("keys", "one of --jwks-url, --jwks-file, --jwt-public-key, --jwt-hs256-secret-file").
			next("and", "--jwt-issuer and --jwt-audience").
			next("to try things out", "holdfast dev makes its own")
	}
	var err error
	switch given {
	case "--jwks-url":
		t.keys, err = auth.JWKSURL(c.JWKSURL, auth.JWKSOptions{})
	case "--jwks-file":
		t.keys, err = auth.JWKSFile(c.JWKSFile)
	case "--jwt-public-key":
		t.keys, err = auth.PEMFile(c.PublicKey)
	default:
		var secret []byte
		if secret, err = secretFile(given, c.HS256SecretFile); err == nil {
			t.keys, err = auth.HS256Secret(secret)
		}
	}
	if err != nil {
		if absent, ok := errors.AsType[*fs.PathError](err); ok { // the path is told already
			err = absent.Err
		}
		return t, usage("%s %s: %w", given, sources[given], err).next("make keys", "holdfast keys generate and holdfast keys jwks")
	}
	return t, nil
}

// untold is which of the three parts of trust were left out.
func (c *serverConfig) untold(keys string) (missing []string) {
	for _, part := range [][2]string{{keys, "a key (such as --jwks-file)"}, {c.Issuer, "--jwt-issuer"}, {c.Audience, "--jwt-audience"}} {
		if part[0] == "" {
			missing = append(missing, part[1])
		}
	}
	return missing
}

// devSigner is the key of a development server: made once, and kept between runs, so that
// tokens of the last run stay good.
func devSigner(d *dataDir) (auth.Signer, error) {
	path := d.file(keyName)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		signer, err := auth.GenerateKey()
		if err != nil {
			return signer, fail(exitFailed, "no key: %w", err)
		}
		if err := writeFile(path, signer.PEM()); err != nil {
			return signer, fail(exitFailed, "the key cannot be written: %w", err).next("use another folder", "--data-dir DIR")
		}
		return signer, nil
	}
	return loadKey(path)
}
