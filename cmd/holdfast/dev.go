package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/limits"
	"github.com/holdfast-dev/holdfast/windows"
)

// devTenant is the key space of a development server's own token.
const devTenant = "default"

// devContext is the name of the context that dev saves.
const devContext = "dev"

func (a *app) devCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a server to try things out: nothing to install, nothing to write",
		Long: "Run a server to try things out: an etcd of its own, sample limits, keys made for you, on this\n" +
			"machine only. It saves a context, so that every other command finds it. DATA_DIR/dev.json tells\n" +
			"where it listens.",
		Example: "  holdfast dev\n" +
			"  holdfast dev --memory                            # forgets everything when it stops\n" +
			"  holdfast dev --limits limits.yaml                # your limits instead of the samples\n" +
			"  holdfast dev --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0   # free ports, told in dev.json",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.dev(cmd) },
	}
	register(cmd.Flags(), devSettings)
	return cmd
}

func (a *app) dev(cmd *cobra.Command) error {
	began := a.now()
	c, read, err := a.serverConfig(cmd, devSettings)
	if err != nil {
		return err
	}
	for _, door := range [][2]string{{"--listen", c.Listen}, {"--admin-listen", c.AdminListen}} {
		if !loopback(door[1]) {
			return usage("dev serves this machine only: %s %s is not loopback", door[0], door[1]).
				next("on loopback", door[0]+" 127.0.0.1:0").next("for others too", "holdfast serve --help")
		}
	}
	if read.origins["log-level"] == "default" {
		c.LogLevel = "warn" // the banner says what there is to say
	}
	var file *limitsFile
	if c.Limits != "" {
		if file, err = a.readLimitsFile(c.Limits); err != nil {
			return err
		}
	}
	if c.Memory && read.origins["data-dir"] == "default" {
		temp, err := os.MkdirTemp("", "holdfast-dev-") // made 0700
		if err != nil {
			return fail(exitFailed, "no temporary folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(temp) }()
		c.DataDir = temp
	}
	return a.devIn(cmd.Context(), c, read, file, began)
}

// devIn runs the server in its folder, whose key signs the tokens it trusts.
func (a *app) devIn(ctx context.Context, c *serverConfig, read settled, file *limitsFile, began time.Time) error {
	dir, err := openDataDir(ctx, c.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.close() }()
	signer, err := devSigner(dir)
	if err != nil {
		return err
	}
	t := trust{issuer: devIssuer, audience: devAudience, keys: signer.KeySource(), jwks: signer.JWKS()}
	return a.inFolder(ctx, c, dir, t, read, devSettings, func(s *site) error {
		if err := s.devLimits(ctx, file); err != nil {
			return err
		}
		saved, err := s.devContext()
		if err != nil {
			return err
		}
		token, err := a.mint(signer, saved.claims())
		if err != nil {
			return err
		}
		run := runFile{URL: saved.URL, AdminURL: saved.AdminURL, Token: token}
		if err := s.dir.writeRunFile(devName, run); err != nil {
			return err
		}
		defer s.dir.removeRunFile(devName)
		link, err := s.firstLink(ctx)
		if ctx.Err() != nil {
			return s.serve(ctx) // stopped while it started: it drains as ever
		}
		if err != nil {
			return err
		}
		if err := s.banner(saved, link, began); err != nil {
			return err
		}
		return s.serve(ctx)
	})
}

// devContext is how the other commands find this server. It names the key, from which they
// make their own tokens.
func (s *site) devContext() (savedContext, error) {
	key, err := filepath.Abs(s.dir.file(keyName))
	if err != nil {
		return savedContext{}, fail(exitFailed, "%w", err)
	}
	return savedContext{
		Name: devContext, URL: s.doors.url(s.doors.api), AdminURL: s.doors.url(s.doors.admin),
		KeyFile: key, Issuer: devIssuer, Audience: devAudience, Subject: devSubject, Scope: devScope,
	}, nil
}

// saveContext saves c, and selects it unless another kind of context is. A home that cannot be written to is no reason not to serve.
func (a *app) saveContext(c savedContext) string {
	file, err := a.contexts()
	chosen := file.Current
	if err == nil {
		file.put(c)
		// A context that somebody chose stays chosen; only another dev's gives way.
		if file.index(chosen) >= 0 && !strings.HasPrefix(chosen, devContext) {
			file.Current = chosen
		}
		err = a.saveContexts(file)
	}
	if err != nil {
		return "no context was saved: " + err.Error()
	}
	if file.Current != c.Name {
		return fmt.Sprintf("context %q saved (selected: %s); use it: holdfast context use %s", c.Name, file.Current, c.Name)
	}
	return fmt.Sprintf("context %q saved and selected", c.Name)
}

// banner says where everything is (CLI.md section 4).
func (s *site) banner(c savedContext, link string, began time.Time) error {
	state := s.cfg.DataDir + "  (embedded etcd, kept between runs; --memory forgets)"
	if s.cfg.Memory {
		state = s.cfg.DataDir + "  (dev.json and the key only; everything else is forgotten)"
	}
	var lines strings.Builder
	for _, line := range [][2]string{
		{"API", c.URL},
		{"Admin", link + "   (works once, for 10 minutes)"},
		{"Metrics", c.AdminURL + "/metrics"},
		{"State", state},
		{"Limits", limitWords(s.service.Catalog(devTenant).Limits())},
		{"CLI", s.app.saveContext(c)},
		{"curl", `export HOLDFAST_TOKEN="$(holdfast token)"`},
	} {
		fmt.Fprintf(&lines, "  %-11s%s\n", line[0], printable(line[1]))
	}
	_, err := fmt.Fprintf(s.app.stdout, "  Holdfast %s  development server                    stop with Ctrl-C\n%s  ready in %.1f s\n",
		version, lines.String(), s.app.now().Sub(began).Seconds())
	return err
}

// maxTold is how many limits the banner names.
const maxTold = 8

// limitWords says a list of limits in one line: those at once first, buckets last.
func limitWords(all []*limits.Limit) string {
	all = slices.Clone(all)
	rank := func(l *limits.Limit) int {
		switch l.Window.Kind {
		case windows.Concurrent:
			return 0
		case windows.Bucket:
			return 2
		default:
			return 1
		}
	}
	slices.SortStableFunc(all, func(x, y *limits.Limit) int { return cmp.Compare(rank(x), rank(y)) })
	words := make([]string, 0, maxTold+1)
	for _, l := range all[:min(len(all), maxTold)] {
		words = append(words, l.ID+" "+amountWords(l))
	}
	if more := len(all) - len(words); more > 0 {
		words = append(words, strconv.Itoa(more)+" more")
	}
	if len(words) == 0 {
		return "none: holdfast limits create --help"
	}
	return strings.Join(words, " · ")
}

// amountWords says how much a limit allows: 3 at once per user, 100 a day, 20 at 10/s.
func amountWords(l *limits.Limit) string {
	amount := strconv.FormatInt(l.Amount, 10)
	switch {
	case l.Window.Kind == windows.Concurrent && l.Share == limits.Each:
		return amount + " at once per " + l.SubjectKind
	case l.Window.Kind == windows.Concurrent:
		return amount + " at once"
	case l.Window.Kind == windows.Bucket:
		return amount + " at " + strconv.FormatFloat(limits.RefillFloat(l.Window.Refill), 'g', -1, 64) + "/s"
	case l.Window.Kind == windows.Total:
		return amount + " in all"
	case l.Window.Kind == windows.Hour:
		return amount + " an hour"
	default:
		return amount + " a " + l.Window.Kind.String()
	}
}
