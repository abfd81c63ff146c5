package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
)

// listeners are the two doors of a server.
type listeners struct {
	api, admin net.Listener
	secure     *tls.Config // nil: plain
}

// openListeners binds both addresses before anything else starts: a port in use is told at
// once, with the flag that changes it.
func openListeners(ctx context.Context, c *serverConfig, log *slog.Logger) (*listeners, error) {
	secure, err := serverTLS(c, log)
	if err != nil {
		return nil, err
	}
	l := &listeners{secure: secure}
	if l.api, err = bind(ctx, c.Listen, "--listen"); err != nil {
		return nil, err
	}
	if l.admin, err = bind(ctx, c.AdminListen, "--admin-listen"); err != nil {
		return nil, errors.Join(err, l.api.Close())
	}
	return l, nil
}

func bind(ctx context.Context, address, flag string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return listener, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fail(exitFailed, "%s is in use already", address).
			next("another port", flag+" 127.0.0.1:0 takes a free one").
			next("or stop the other", "is another holdfast running?")
	case errors.Is(err, fs.ErrPermission):
		return nil, fail(exitFailed, "%s may not be listened on: %w", address, err).next("another port", flag+" 127.0.0.1:0 takes a free one")
	default:
		return nil, fail(exitFailed, "%s cannot be listened on: %w", address, err).next("change it", flag+" HOST:PORT")
	}
}

// url is where a door is reached from this machine.
func (l *listeners) url(door net.Listener) string {
	scheme := "http://"
	if l.secure != nil {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(door.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return scheme + net.JoinHostPort(host, port)
}

func (l *listeners) close() error { return errors.Join(l.api.Close(), l.admin.Close()) }

// runFile tells tests and scripts where a server listens (CLI.md section 2).
type runFile struct {
	URL      string `json:"url"`
	AdminURL string `json:"adminUrl"`
	Token    string `json:"token,omitempty"` // dev only
	PID      int    `json:"pid"`
}

// writeRunFile writes it in one step, once the server is ready.
func (d *dataDir) writeRunFile(name string, r runFile) error {
	r.PID = os.Getpid()
	data, err := json.Marshal(r)
	if err == nil {
		err = writeFile(d.file(name), append(data, '\n'))
	}
	if err != nil {
		return fail(exitFailed, "%s cannot be written: %w", d.file(name), err).next("use another folder", "--data-dir DIR")
	}
	return nil
}

// removeRunFile takes it away: nobody listens there any more.
func (d *dataDir) removeRunFile(name string) { _ = os.Remove(d.file(name)) }

// secretFile reads a secret from a file, without the white space around it.
func secretFile(flag, path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usage("%s cannot be read: %w", flag, err)
	}
	secret := strings.TrimSpace(string(data))
	if secret == "" {
		return nil, usage("%s %s is empty", flag, path)
	}
	return []byte(secret), nil
}
