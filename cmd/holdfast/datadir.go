package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
)

// Names in a data directory.
const (
	lockName  = "lock"     // held while a server runs, with its process id inside
	etcdName  = "etcd"     // what the embedded etcd keeps
	keyName   = "key.pem"  // dev: what signs its tokens
	devName   = "dev.json" // dev: where it listens
	serveName = "serve.json"
)

// lockWait is how long a directory in use is waited for: a server that is just stopping.
const lockWait = time.Second

// dataDir is a folder that belongs to this process until it is closed.
type dataDir struct {
	path string
	lock *fileutil.LockedFile
}

// openDataDir makes the folder (0700) and locks it. etcd's own lock makes a second process
// wait in silence (FAULTS 1.3); this one tells who has it, within two seconds.
func openDataDir(ctx context.Context, path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fail(exitFailed, "the data folder cannot be made: %w", err).next("use another", "--data-dir DIR")
	}
	name := filepath.Join(path, lockName)
	deadline := time.Now().Add(lockWait)
	for {
		lock, err := fileutil.TryLockFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			d := &dataDir{path: path, lock: lock}
			return d, d.sign()
		}
		if !errors.Is(err, fileutil.ErrLocked) {
			return nil, fail(exitFailed, "the data folder cannot be used: %w", err).next("use another", "--data-dir DIR")
		}
		if time.Now().After(deadline) || !sleep(ctx, lockWait/10) {
			return nil, inUse(path, name)
		}
	}
}

// sign writes this process's id into the lock file.
func (d *dataDir) sign() error {
	err := d.lock.Truncate(0)
	if err == nil {
		_, err = d.lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	if err != nil {
		return errors.Join(fail(exitFailed, "the data folder cannot be written to: %w", err), d.close())
	}
	return nil
}

func inUse(path, lock string) error {
	who, pid := "another process", "PID"
	if file, err := os.Open(lock); err == nil {
		defer func() { _ = file.Close() }()
		if read, err := io.ReadAll(io.LimitReader(file, 32)); err == nil && strings.TrimSpace(string(read)) != "" {
			pid = strings.TrimSpace(string(read))
			who = "process " + pid
		}
	}
	return fail(exitFailed, "%s is in use by %s", path, who).next("use another", "--data-dir DIR").next("or stop it", "kill -TERM "+pid)
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

// close gives the folder back. The lock file stays: removing it would let two processes lock
// two files of the same name.
func (d *dataDir) close() error { return d.lock.Close() }
