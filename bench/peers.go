package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/load"
)

// missing is a peer that this machine does not have. It is no reason to stop.
type missing struct{ what, install string }

func (m *missing) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install --no-install-recommends %s; its rows are left out", m.what, m.install)
}

// redisModes are what a Redis is told about its disk.
var redisModes = map[string][]string{
	"always":   {"--appendonly", "yes", "--appendfsync", "always"},
	"everysec": {"--appendonly", "yes", "--appendfsync", "everysec"},
	"none":     {"--appendonly", "no"},
}

// startRedis starts a Redis on a free loopback port.
func (r *rig) startRedis(ctx context.Context, mode string) (p *process, address string, err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", &missing{"redis-server", "redis-server"}
	}
	dir, err := r.folder("redis")
	if err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", ""}, redisModes[mode]...)
	if p, err = spawn(r.dir, nil, binary, args...); err != nil {
		return nil, "", err
	}
	return p, fmt.Sprintf("127.0.0.1:%d", port), p.await(ctx, func() bool { return listening(port) })
}

// postgresPrograms finds initdb and postgres: in the path, or where Debian keeps the newest.
func postgresPrograms() (initdb, postgres string, err error) {
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is right
	slices.Reverse(folders)
	for _, dir := range append([]string{""}, folders...) {
		initdb, first := exec.LookPath(filepath.Join(dir, "initdb"))
		postgres, second := exec.LookPath(filepath.Join(dir, "postgres"))
		if first == nil && second == nil {
			return initdb, postgres, nil
		}
	}
	return "", "", &missing{"postgresql", "postgresql"}
}

// startPostgres makes a cluster with the settings it comes with (but for the number of connections:
// two pools of 64 are kept), fsync and synchronous_commit on
// among them, and the table of slots.
func (r *rig) startPostgres(ctx context.Context) (p *process, address string, err error) {
	initdb, postgres, err := postgresPrograms()
	if err != nil {
		return nil, "", err
	}
	dir, err := r.folder("postgres")
	if err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	as, err := postgresUser(dir)
	if err != nil {
		return nil, "", err
	}
	data := filepath.Join(dir, "data")
	made := exec.CommandContext(ctx, initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale")
	as(made)
	if out, err := made.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p, err = spawn(r.dir, as, postgres, "-D", data, "-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200")
	if err != nil {
		return nil, "", err
	}
	address = fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port)
	if err := p.await(ctx, func() bool { return postgresAnswers(ctx, address) }); err != nil {
		p.stop()
		return nil, "", err
	}
	return p, address, r.postgresTable(ctx, address)
}

// postgresUser lets the server run as somebody else when we are root, which it refuses to be.
func postgresUser(dir string) (func(*exec.Cmd), error) {
	if os.Geteuid() != 0 {
		return func(*exec.Cmd) {}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.Join(&missing{"a user that PostgreSQL can run as", "postgresql"}, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return func(c *exec.Cmd) {
		if c.SysProcAttr == nil {
			c.SysProcAttr = childAttributes()
		}
		asUser(c.SysProcAttr, uint32(uid), uint32(gid))
		c.Dir = dir
	}, os.Chown(dir, int(uid), int(gid))
}

func postgresAnswers(ctx context.Context, address string) bool {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close(ctx) }()
	return c.Ping(ctx) == nil
}

// postgresTable makes the slots of 64 keys.
func (r *rig) postgresTable(ctx context.Context, address string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	for _, statement := range postgresSchema {
		if _, err := c.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// direct is an arm of a semaphore by its own driver, without the front: what the front costs.
func direct(name string, workers int, behind semaphores, keys load.Keys) arm {
	return arm{name: name, workers: workers, begin: func(context.Context) (func(int) (load.Step, error), func(context.Context) error, error) {
		return func(worker int) (load.Step, error) {
			pick := keys.Picker(uint64(worker))
			return func(ctx context.Context) (load.Outcome, error) {
				key := "s" + strconv.Itoa(pick())
				slot, err := behind.acquire(ctx, key, ttl)
				switch {
				case err != nil:
					return 0, err
				case slot == "":
					return load.Refused, nil
				}
				return load.Granted, behind.release(ctx, key, slot)
			}, nil
		}, nil, nil
	}}
}

// quiet keeps the driver from writing between the lines of progress.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
