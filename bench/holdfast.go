package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/load"
)

// server is a Holdfast that was started here, as a process of its own.
type server struct {
	*process
	url, admin string
	token      string
	etcd       string // address of the embedded etcd's client listener; "" for none
	end        *load.Endpoint
}

// serve starts `holdfast serve` in a fresh folder: embedded etcd with fsync, its client listener
// open on loopback so that Puts can go to the same server; or on the etcd at endpoints.
func (r *rig) serve(ctx context.Context, endpoints string) (*server, error) {
	dir, err := r.folder("serve")
	if err != nil {
		return nil, err
	}
	s := &server{token: r.token}
	args := []string{
		"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "warn",
		"--jwks-file", r.jwks, "--jwt-issuer", issuer, "--jwt-audience", audience, "--limits-file", r.limits,
	}
	if endpoints != "" {
		args = append(args, "--etcd-endpoints", endpoints)
	} else {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		s.etcd = fmt.Sprintf("127.0.0.1:%d", port)
		args = append(args, "--etcd-listen-client", s.etcd)
	}
	return s, s.run(ctx, r, dir, "serve.json", args)
}

// dev starts `holdfast dev` in dir, which may hold what an earlier one left.
func (r *rig) dev(ctx context.Context, dir string) (*server, error) {
	s := &server{}
	return s, s.run(ctx, r, dir, "dev.json", []string{
		"dev", "--data-dir", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--limits", r.limits,
	})
}

// run starts the binary and waits until it has told where it listens.
func (s *server) run(ctx context.Context, r *rig, dir, file string, args []string) (err error) {
	told := filepath.Join(dir, file)
	if err := os.Remove(told); err != nil && !os.IsNotExist(err) {
		return err
	}
	s.process, err = spawn(r.dir, func(c *exec.Cmd) {
		c.Env = append(os.Environ(), "HOME="+r.dir, "XDG_CONFIG_HOME="+r.dir)
	}, r.holdish, args...)
	if err != nil {
		return err
	}
	var at struct{ URL, AdminURL, Token string }
	err = s.await(ctx, func() bool {
		text, err := os.ReadFile(told)
		return err == nil && json.Unmarshal(text, &at) == nil
	})
	if err != nil {
		s.stop()
		return err
	}
	s.url, s.admin = at.URL, at.AdminURL
	if at.Token != "" {
		s.token = at.Token
	}
	s.end, err = load.NewEndpoint(s.url, s.token, 0, time.Now)
	return err
}

func (s *server) endpoint() *load.Endpoint { return s.end }

// call is one request away from any measurement.
func (s *server) call(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %d %.300s", path, resp.StatusCode, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// metric is one value of /metrics, labels included in its name.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, nil
}

// anonymous is the memory of the process that no file backs, in bytes; 0 where it is not told.
func (p *process) anonymous() int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}
