package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
)

// clientConfig is what every verb of a client listens to.
type clientConfig struct {
	Server      string        `koanf:"server"`
	AdminServer string        `koanf:"admin-server"`
	TokenFile   string        `koanf:"token-file"`
	Context     string        `koanf:"context"`
	Output      string        `koanf:"output"`
	Timeout     time.Duration `koanf:"timeout"`
	NoColor     bool          `koanf:"no-color"`
	Quiet       bool          `koanf:"quiet"`
	Verbose     bool          `koanf:"verbose"`
}

// clientSettings are the flags that every command has. There is none for a token: what is
// on a command line can be read by everybody on the machine.
var clientSettings = []setting{
	{name: "server", value: "URL", env: "HOLDFAST_URL", help: "URL of the server's API (default: the context's, or " + defaultURL + ")"},
	{name: "admin-server", value: "URL", env: "HOLDFAST_ADMIN_URL", help: "URL of the server's admin listener (default: the context's, or " + defaultAdminURL + ")"},
	{name: "token-file", value: "FILE", help: "read the token from FILE (default: $HOLDFAST_TOKEN, then the context's)"},
	{name: "context", value: "NAME", help: "use the saved context NAME (default: the selected one)"},
	{name: "output", short: "o", value: "FORM", def: "table", words: []string{"table", "json", "yaml", "name"}, help: "FORM of the answer: table, json, yaml or name"},
	{name: "timeout", kind: length, def: "15s", value: "TIME", help: "give up after TIME; waiting for a slot is not counted"},
	{name: "no-color", kind: toggle, def: "false", help: "no colour; NO_COLOR does the same"},
	{name: "quiet", short: "q", kind: toggle, def: "false", help: "say nothing on stderr but what went wrong"},
	{name: "verbose", short: "v", kind: toggle, def: "false", help: "say each request on stderr"},
}

// Where a server listens unless it was told otherwise.
const (
	defaultURL      = "http://127.0.0.1:7420"
	defaultAdminURL = "http://127.0.0.1:7421"
)

func (c *clientConfig) validate() error {
	for _, given := range [][2]string{{"--server", c.Server}, {"--admin-server", c.AdminServer}} {
		if given[1] != "" && !isURL(given[1]) {
			return usage("%s: %q is no http or https URL", given[0], given[1]).next("for example", "--server "+defaultURL)
		}
		if u, err := url.Parse(given[1]); err == nil && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1") {
			return usage("%s: %q ends in the path of the API, which is added to it", given[0], given[1]).
				next("written as", given[0]+" "+strings.TrimSuffix(strings.TrimRight(given[1], "/"), "/v1"))
		}
	}
	if c.Timeout == 0 {
		return usage("--timeout must be above 0").next("for example", "--timeout 30s")
	}
	c.Server, c.AdminServer = strings.TrimRight(c.Server, "/"), strings.TrimRight(c.AdminServer, "/")
	return nil
}

// target is whom a verb talks to, and how it shows who asks.
type target struct {
	url, adminURL string
	context       string // that it came from; "" for none
	token         func() (string, error)
	own           func() (string, error) // the context's, else token; HOLDFAST_TOKEN never hides it
	from          credential
}

// credential says where the token in force comes from.
type credential struct {
	origin    string // HOLDFAST_TOKEN, "--token-file FILE", "context NAME"; "" for none
	renewable bool   // the context makes or reads one of its own
}

// noToken is why a verb cannot show who asks.
func noToken() *failure {
	return fail(exitDenied, "there is no token to sign in with").
		next("for a development server", "holdfast dev (it saves a context)").
		next("with a token", "export HOLDFAST_TOKEN=… or --token-file FILE").
		next("saved contexts", "holdfast context ls")
}

// target puts together flags, environment, file, context and defaults.
//
// A context's credentials go to that context's server and to no other one: a URL that was
// given by hand gets a token that was given by hand.
func (a *app) target() (target, error) {
	saved, err := a.savedContext()
	if err != nil {
		return target{}, err
	}
	t := target{url: a.client.Server, adminURL: a.client.AdminServer, token: func() (string, error) { return "", noToken() }}
	if saved != nil && (t.url == "" || t.url == saved.URL) {
		t.context, t.url = saved.Name, saved.URL
		t.token = func() (string, error) { return a.contextToken(saved) }
		if t.adminURL == "" {
			t.adminURL = saved.AdminURL
		}
	}
	if saved != nil && t.context == "" {
		t.token = func() (string, error) {
			return "", noToken().next("not used", "context "+saved.Name+" signs in to "+saved.URL+" and nowhere else")
		}
	}
	if t.url == "" {
		t.url = defaultURL
	}
	if t.adminURL == "" && t.url == defaultURL {
		t.adminURL = defaultAdminURL
	}
	signs := t.context != "" && (saved.KeyFile != "" || saved.TokenFile != "")
	t.own = t.token
	if signs {
		t.from = credential{"context " + t.context, true}
	}
	if byHand, origin := a.tokenByHand(); byHand != nil {
		t.token, t.from.origin = byHand, origin
		if !signs || a.origins["token-file"] == "flag" {
			t.own = byHand
		}
	}
	a.signsIn = t.from
	return t, nil
}

// tokenByHand is the token of --token-file or HOLDFAST_TOKEN, and its origin; nil for none.
func (a *app) tokenByHand() (token func() (string, error), origin string) {
	file := func() (string, error) { return readToken(a.client.TokenFile) }
	if a.origins["token-file"] == "flag" {
		return file, "--token-file " + a.client.TokenFile
	}
	if raw := strings.TrimSpace(a.env["HOLDFAST_TOKEN"]); raw != "" {
		return func() (string, error) { return oneLine(raw, "HOLDFAST_TOKEN") }, "HOLDFAST_TOKEN"
	}
	if a.client.TokenFile != "" {
		return file, "the token file " + a.client.TokenFile
	}
	return nil, ""
}

// oneLine refuses a token that no header can carry: several lines, or words between spaces.
func oneLine(raw, origin string) (string, error) {
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fail(exitDenied, "%s holds no token: a token is one word of plain characters", origin).
			next("a token of the context", "holdfast token").next("name another", "--token-file FILE")
	}
	return raw, nil
}

func readToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fail(exitDenied, "the token file cannot be read: %w", err).next("name another", "--token-file FILE")
	}
	raw := strings.TrimSpace(string(data))
	if raw == "" {
		return "", fail(exitDenied, "the token file %s is empty", path).next("name another", "--token-file FILE")
	}
	return oneLine(raw, path)
}

// contextToken is the token a context stands for: made from its key, or read from its file.
func (a *app) contextToken(c *savedContext) (string, error) {
	switch {
	case c.KeyFile != "":
		signer, err := loadKey(c.KeyFile)
		if errors.Is(err, fs.ErrNotExist) && c.Issuer == devIssuer {
			return "", fail(exitDenied, "the development server of context %q is gone, and its key with it", c.Name).
				next("start one", "holdfast dev").next("another context", "holdfast context ls").
				next("forget this one", "holdfast context rm "+quoted(c.Name))
		}
		if err != nil {
			return "", err
		}
		return a.mint(signer, c.claims())
	case c.TokenFile != "":
		return readToken(c.TokenFile)
	default:
		return "", noToken()
	}
}

// loadKey reads a private key for signing tokens.
func loadKey(path string) (auth.Signer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return auth.Signer{}, fail(exitDenied, "the key file cannot be read: %w", err).
			next("make one", "holdfast keys generate --out FILE").
			next("a development server makes its own", "holdfast dev")
	}
	signer, err := auth.LoadSigner(data)
	if err != nil {
		return auth.Signer{}, fail(exitDenied, "%s is no private key that can sign tokens: %w", path, err).
			next("make one", "holdfast keys generate --out FILE")
	}
	return signer, nil
}

// mint signs claims as of now.
func (a *app) mint(signer auth.Signer, c auth.Claims) (string, error) {
	token, err := signer.Mint(c, a.now())
	if err != nil {
		return "", usage("no token can be made of that: %w", err).next("help", "holdfast token mint --help")
	}
	return token, nil
}
