package main

import (
	"context"
	"net/http"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) uiCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ui",
		Short: "Open the admin page, signed in",
		Long: "Open the admin page in the browser, signed in by a link that works once. Off a terminal, and where\n" +
			"there is no browser to start, the link is printed. The session lasts as long as the token, 12 hours\n" +
			"at the most.",
		Example: "  holdfast ui\n" +
			"  holdfast ui | cat            # print the link only",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.ui(cmd.Context()) },
	}
}

func (a *app) ui(ctx context.Context) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	var link api.LoginLink
	if _, err := call.do(ctx, act{method: http.MethodPost, path: "/admin/v1/login-links", admin: true, into: &link}); err != nil {
		return err
	}
	url := strings.TrimSuffix(call.target.adminURL, "/") + link.Path
	if terminal(a.stdout) && !a.asJSON && openBrowser(ctx, url) == nil {
		a.say("the admin page is opening; the link works once: %s", url)
		return nil
	}
	return a.emit(struct {
		URL       string   `json:"url"`
		ExpiresAt api.Time `json:"expiresAt"`
	}{url, link.ExpiresAt}, func() string { return url + "\n" }, func() []string { return []string{url} })
}

// openBrowser starts the browser of the person at this machine, and does not wait for it.
func openBrowser(ctx context.Context, url string) error {
	name, args := "xdg-open", []string{url}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	}
	return exec.CommandContext(context.WithoutCancel(ctx), name, args...).Start()
}
