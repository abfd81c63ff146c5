package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve in production, on an etcd of its own or on yours",
		Long: "Serve in production, on an etcd of its own or on yours. It must be told whose tokens to trust.\n" +
			"DATA_DIR/serve.json tells where it listens. TERM lets it drain for at most 10 s; twice stops it at once.",
		Example: "  holdfast serve --jwks-url https://issuer.example/jwks.json --jwt-issuer https://issuer.example --jwt-audience holdfast\n" +
			"  holdfast serve --config /etc/holdfast.yaml\n" +
			"  holdfast serve --jwt-public-key keys.pem --jwt-issuer me --jwt-audience holdfast --etcd-endpoints https://etcd-1:2379,https://etcd-2:2379,https://etcd-3:2379",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd) },
	}
	register(cmd.Flags(), serveSettings)
	return cmd
}

func (a *app) serve(cmd *cobra.Command) error {
	ctx := cmd.Context()
	c, read, err := a.serverConfig(cmd, serveSettings)
	if err != nil {
		return err
	}
	t, err := c.trusted()
	if err != nil {
		return err
	}
	files, err := a.readLimitsFiles(c.LimitsFiles)
	if err != nil {
		return err
	}
	return a.onSite(ctx, c, t, read, serveSettings, func(s *site) error {
		for _, file := range files {
			if _, err := s.importLimits(ctx, file); err != nil {
				return err
			}
			if file.path != "-" {
				s.crew.run("limits file", func(ctx context.Context) error { return s.followLimits(ctx, file) })
			}
		}
		run := runFile{URL: s.doors.url(s.doors.api), AdminURL: s.doors.url(s.doors.admin)}
		if err := s.dir.writeRunFile(serveName, run); err != nil {
			return err
		}
		defer s.dir.removeRunFile(serveName)
		s.log.Info("serving", "url", run.URL, "admin_url", run.AdminURL, "store", s.back.mode, "version", version)
		return s.serve(ctx)
	})
}

// serverConfig reads and judges the settings of a server.
func (a *app) serverConfig(cmd *cobra.Command, settings []setting) (*serverConfig, settled, error) {
	read, err := a.read(cmd.Flags(), settings)
	if err != nil {
		return nil, read, err
	}
	c := &serverConfig{}
	if err := read.into(c); err != nil {
		return nil, read, err
	}
	return c, read, c.validate()
}

// onSite opens a server in the order folder, doors, store, and lets use have it once it is
// ready. Whatever happened, everything is closed in the other order when it returns.
func (a *app) onSite(ctx context.Context, c *serverConfig, t trust, read settled, settings []setting, use func(*site) error) error {
	dir, err := openDataDir(ctx, c.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = dir.close() }()
	return a.inFolder(ctx, c, dir, t, read, settings, use)
}

func (a *app) inFolder(ctx context.Context, c *serverConfig, dir *dataDir, t trust, read settled, settings []setting, use func(*site) error) error {
	doors, err := openListeners(ctx, c, a.logger(c))
	if err != nil {
		return err
	}
	defer func() { _ = doors.close() }()
	s, err := a.newSite(ctx, c, dir, doors, t, a.described(read, settings))
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.start(ctx); err != nil {
		return err
	}
	return use(s)
}
