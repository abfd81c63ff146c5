package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/holdfast-dev/holdfast/auth"
)

// contextFile is what is kept in holdfast/config.yaml in the user's folder of settings.
type contextFile struct {
	Current  string         `yaml:"current,omitempty"`
	Contexts []savedContext `yaml:"contexts"`
}

// savedContext is one server and how to sign in to it. It holds names of files, no secrets.
type savedContext struct {
	Name     string `yaml:"name" json:"name"`
	URL      string `yaml:"url" json:"url"`
	AdminURL string `yaml:"adminUrl,omitempty" json:"adminUrl,omitempty"`

	TokenFile string `yaml:"tokenFile,omitempty" json:"tokenFile,omitempty"`

	KeyFile  string `yaml:"keyFile,omitempty" json:"keyFile,omitempty"` // signs tokens that say:
	Issuer   string `yaml:"issuer,omitempty" json:"issuer,omitempty"`
	Audience string `yaml:"audience,omitempty" json:"audience,omitempty"`
	Subject  string `yaml:"subject,omitempty" json:"subject,omitempty"`
	Scope    string `yaml:"scope,omitempty" json:"scope,omitempty"`
}

// tokenTTL is how long a token made from a key lasts, unless --ttl says otherwise. It is the
// longest life that a server accepts by default.
const tokenTTL = 24 * time.Hour

// claims are what a token made from the context's key says.
func (c *savedContext) claims() auth.Claims {
	return auth.Claims{Issuer: c.Issuer, Audience: c.Audience, Subject: c.Subject, Scope: c.Scope, TTL: tokenTTL}
}

// contextPath is the file of contexts, by the rules of os.UserConfigDir for the environment
// this run was given.
func (a *app) contextPath() (string, error) {
	dir := ""
	switch runtime.GOOS {
	case "windows":
		dir = a.env["AppData"]
	case "darwin", "ios":
		if home := a.env["HOME"]; home != "" {
			dir = filepath.Join(home, "Library", "Application Support")
		}
	default:
		if dir = a.env["XDG_CONFIG_HOME"]; dir == "" && a.env["HOME"] != "" {
			dir = filepath.Join(a.env["HOME"], ".config")
		}
	}
	if dir == "" || !filepath.IsAbs(dir) {
		return "", fail(exitFailed, "there is no folder for settings: HOME is not set").
			next("without contexts", "export HOLDFAST_URL=… HOLDFAST_TOKEN=…")
	}
	return filepath.Join(dir, "holdfast", "config.yaml"), nil
}

// contexts reads the file; one that is not there yet is empty.
func (a *app) contexts() (contextFile, error) {
	var file contextFile
	path, err := a.contextPath()
	if err != nil {
		return file, nil //nolint:nilerr // no home, no contexts: saving one says so
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, fail(exitFailed, "the saved contexts cannot be read: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		return file, fail(exitFailed, "%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, false))).
			next("start over", "remove the file, then holdfast context add")
	}
	return file, nil
}

// saveContexts writes the file, readable by its owner alone.
func (a *app) saveContexts(file contextFile) error {
	path, err := a.contextPath()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fail(exitFailed, "the context cannot be saved: %w", err)
	}
	if err := writeFile(path, data); err != nil {
		return fail(exitFailed, "the context cannot be saved: %w", err)
	}
	return nil
}

// put adds a context or replaces the one of its name, and selects it.
func (f *contextFile) put(c savedContext) {
	f.Current = c.Name
	if i := f.index(c.Name); i >= 0 {
		f.Contexts[i] = c
		return
	}
	f.Contexts = append(f.Contexts, c)
}

// index is where the context of that name stands, -1 when it does not.
func (f *contextFile) index(name string) int {
	return slices.IndexFunc(f.Contexts, func(c savedContext) bool { return c.Name == name })
}

func (f *contextFile) names() []string {
	names := make([]string, len(f.Contexts))
	for i, c := range f.Contexts {
		names[i] = c.Name
	}
	return names
}

// unknown is the failure that a context is not there.
func (f *contextFile) unknown(name string) *failure {
	failed := fail(exitNotFound, "there is no context %q", name)
	if near := nearest(name, f.names()); near != "" {
		failed.next("did you mean", near)
	}
	return failed.next("saved contexts", "holdfast context ls")
}

// savedContext is the context in force: the one that was named, else the selected one, else nil.
func (a *app) savedContext() (*savedContext, error) {
	file, err := a.contexts()
	if err != nil {
		return nil, err
	}
	name := a.client.Context
	if name == "" {
		name = file.Current
	}
	if name == "" {
		return nil, nil
	}
	i := file.index(name)
	if i < 0 && a.client.Context == "" {
		return nil, nil // the selected one was removed
	}
	if i < 0 {
		return nil, file.unknown(name)
	}
	return &file.Contexts[i], nil
}

// writeFile replaces a file in one step, readable by its owner alone: whoever reads it sees
// the old one or the new one, whole.
func writeFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return err
}
