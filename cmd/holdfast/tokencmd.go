package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/auth"
)

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print the token of the context, make one, or look into one",
		Long: "Print the token of the context, whatever HOLDFAST_TOKEN holds, so that it renews that one. Without a\n" +
			"context that can sign in it is the token in force.",
		Example: "  export HOLDFAST_TOKEN=\"$(holdfast token)\"\n" +
			"  holdfast token mint --sub u_42 --ttl 1h\n" +
			"  holdfast token inspect",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args)
			}
			t, err := a.target()
			if err != nil {
				return err
			}
			token, err := t.own()
			if err != nil {
				return err
			}
			return a.emitToken(token)
		},
	}
	cmd.AddCommand(a.mintCommand(), a.inspectCommand())
	return cmd
}

// minting is what `token mint` was told.
type minting struct {
	key        string
	scopeGiven bool // --scope "" is a token without a scope
	claims     auth.Claims
}

func (a *app) mintCommand() *cobra.Command {
	var m minting
	cmd := &cobra.Command{
		Use:   "mint",
		Short: "Sign a token with the context's key, or with --key",
		Example: "  holdfast token mint --sub u_42\n" +
			"  holdfast token mint --sub backend --subject-kind service --scope act-for --ttl 12h\n" +
			"  holdfast token mint --key signing.pem --issuer https://issuer.example --audience holdfast --sub u_42",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.scopeGiven = cmd.Flags().Changed("scope")
			return a.printMinted(m)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.claims.Subject, "sub", "", "the token is for `ID` (default: the context's own)")
	flags.StringVar(&m.claims.SubjectKind, "subject-kind", "", "`KIND` of the subject (default: user)")
	flags.StringVar(&m.claims.Scope, "scope", "", "`SCOPES` it grants, separated by spaces (default: none; the context's own without --sub)")
	flags.StringVar(&m.claims.Tenant, "tenant", "", "`TENANT` it opens (default: default)")
	flags.DurationVar(&m.claims.TTL, "ttl", tokenTTL, "it lasts `TIME`")
	flags.StringVar(&m.key, "key", "", "sign with the private key in `FILE` (default: the context's)")
	flags.StringVar(&m.claims.Issuer, "issuer", "", "claim iss (default: the context's)")
	flags.StringVar(&m.claims.Audience, "audience", "", "claim aud (default: the context's, or holdfast)")
	return cmd
}

// printMinted fills in what the context knows, signs, and prints.
func (a *app) printMinted(m minting) error {
	saved, err := a.savedContext()
	if err != nil {
		return err
	}
	if saved != nil && saved.KeyFile != "" && (m.key == "" || m.key == saved.KeyFile) {
		m.from(saved)
	}
	if m.claims.Audience == "" {
		m.claims.Audience = devAudience
	}
	if m.key == "" {
		return fail(exitDenied, "there is no key to sign with").next("name one", "--key FILE").next("make one", "holdfast keys generate --out FILE")
	}
	if m.claims.Issuer == "" {
		return usage("a token needs an issuer: the one the server was told to trust").next("name it", "--issuer NAME")
	}
	if m.claims.Subject == "" {
		return usage("a token is for somebody").next("name them", "--sub ID")
	}
	signer, err := loadKey(m.key)
	if err != nil {
		return err
	}
	token, err := a.mint(signer, m.claims)
	if err != nil {
		return err
	}
	return a.emitToken(token)
}

// printedToken is a token as a program reads it.
type printedToken struct {
	Token     string     `json:"token"`
	Subject   string     `json:"subject,omitempty"`
	Scope     string     `json:"scope,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// emitToken prints a token, with -o json what it says beside it.
func (a *app) emitToken(token string) error {
	plainly := func() string { return token + "\n" }
	answer := printedToken{Token: token}
	if _, claims, err := auth.Inspect(token); err == nil { // one of another kind is printed all the same
		answer.Subject, _ = claims["sub"].(string)
		answer.Scope, _ = claims["scope"].(string)
		if exp, ok := claims["exp"].(json.Number); ok {
			if unix, err := exp.Int64(); err == nil {
				at := time.Unix(unix, 0).UTC()
				answer.ExpiresAt = &at
			}
		}
	}
	return a.emit(answer, plainly, func() []string { return []string{token} })
}

// from fills in what was left out. The context's scope goes with the context's subject only.
func (m *minting) from(c *savedContext) {
	m.key = c.KeyFile
	if m.claims.Issuer == "" {
		m.claims.Issuer = c.Issuer
	}
	if m.claims.Audience == "" {
		m.claims.Audience = c.Audience
	}
	if m.claims.Subject == "" {
		m.claims.Subject = c.Subject
		if !m.scopeGiven {
			m.claims.Scope = c.Scope
		}
	}
}

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect [FILE]",
		Short: "Show what a token says, without verifying it",
		Long:  "Show what a token says, without verifying it. Without FILE it is the token in force; - is stdin.",
		Example: "  holdfast token inspect\n" +
			"  holdfast token inspect token.txt\n" +
			"  pbpaste | holdfast token inspect - -o json",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			token, err := a.inspected(args)
			if err != nil {
				return err
			}
			header, claims, err := auth.Inspect(strings.TrimSpace(token))
			if err != nil {
				return usage("that is no token: %w", err).next("the context's", "holdfast token | holdfast token inspect -")
			}
			return a.emitClaims(header, claims)
		},
	}
}

func (a *app) inspected(args []string) (string, error) {
	if len(args) == 1 {
		data, err := a.readInput(args[0])
		return string(data), err
	}
	t, err := a.target()
	if err != nil {
		return "", err
	}
	return t.token()
}

func (a *app) emitClaims(header, claims map[string]any) error {
	answer := map[string]any{"header": header, "claims": claims}
	return a.emit(answer, func() string {
		t := newTable("CLAIM", "VALUE")
		for _, name := range []string{"iss", "aud", "sub", "subject_kind", "tenant", "scope", "subjects", "jti"} {
			if value, ok := claims[name]; ok {
				t.row(name, plain(value))
			}
		}
		for _, name := range []string{"iat", "nbf", "exp"} {
			if value, ok := claims[name]; ok {
				t.row(name, a.instant(value))
			}
		}
		t.row("signed", fmt.Sprintf("%v, key %v (not verified here)", header["alg"], header["kid"]))
		return t.render("")
	}, func() []string { return []string{plain(claims["sub"])} })
}

// plain is a claim as text.
func plain(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(encoded)
}

// instant is a NumericDate as an instant and how far off it is.
func (a *app) instant(value any) string {
	number, ok := value.(json.Number)
	if !ok {
		return plain(value)
	}
	unix, err := number.Float64()
	if err != nil {
		return plain(value)
	}
	at := time.Unix(int64(unix), 0).UTC()
	if away := at.Sub(a.now()); away > 0 {
		return at.Format(time.RFC3339) + " (in " + short(away) + ")"
	}
	return at.Format(time.RFC3339) + " (" + short(a.now().Sub(at)) + " ago)"
}
