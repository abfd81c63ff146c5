package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/api"
)

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the whole state of a running server to a file",
		Long: "Write the whole state of a running server to a file, every tenant's, while it goes on serving. The file\n" +
			"is a snapshot of etcd, checked to its last byte, for holdfast restore. It is written beside FILE and takes\n" +
			"its name when it is whole. Needs the scope admin, and the admin listener.",
		Example: "  holdfast backup holdfast-$(date +%F).backup\n" +
			"  holdfast backup --admin-server https://holdfast.example:7421 --token-file admin.txt monday.backup",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return a.backup(cmd.Context(), args[0]) },
	}
}

// backupMade is what backup tells a program.
type backupMade struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of what comes before the last 32 bytes, which are this
}

func (a *app) backup(ctx context.Context, path string) error {
	call, err := a.caller()
	if err != nil {
		return err
	}
	from, err := call.stream(ctx, act{method: http.MethodGet, path: "/admin/v1/backup", admin: true})
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	made, err := writeBackup(path, from)
	if err != nil {
		return err
	}
	a.say("put it back with: holdfast restore %s", path)
	return a.emit(made, func() string { return fmt.Sprintf("%s  %d bytes\n", made.File, made.Bytes) }, func() []string { return []string{made.File} })
}

// writeBackup writes a snapshot beside path and renames it once its digest has been checked and
// it is on disk: whatever stands under path is whole.
func writeBackup(path string, from io.Reader) (made backupMade, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-*") // made 0600
	if err != nil {
		return made, fail(exitFailed, "the backup cannot be written: %w", err).next("name another file", "holdfast backup FILE")
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	sum := newSumCheck()
	n, err := io.Copy(io.MultiWriter(file, sum), from)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return made, fail(exitUnavailable, "the backup broke off after %d bytes: %w", n, err).next("try", "once more; nothing was left behind")
	}
	digest, err := sum.check()
	if err != nil {
		return made, fail(exitUnavailable, "the backup is not whole: %w", err).next("try", "once more; nothing was left behind")
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return made, fail(exitFailed, "the backup cannot be written: %w", err).next("name another file", "holdfast backup FILE")
	}
	return backupMade{File: path, Bytes: n, SHA256: fmt.Sprintf("%x", digest)}, nil
}

// sumCheck takes in a snapshot, whose last bytes are the digest of what comes before them.
type sumCheck struct {
	sum  hash.Hash
	tail []byte // the last bytes so far, at most sha256.Size
}

func newSumCheck() *sumCheck { return &sumCheck{sum: sha256.New()} }

func (s *sumCheck) Write(p []byte) (int, error) {
	s.tail = append(s.tail, p...)
	if more := len(s.tail) - sha256.Size; more > 0 {
		s.sum.Write(s.tail[:more]) // a hash never fails to write
		s.tail = append(s.tail[:0], s.tail[more:]...)
	}
	return len(p), nil
}

// check is the digest, when it is the one at the end.
func (s *sumCheck) check() ([]byte, error) {
	if got := s.sum.Sum(nil); len(s.tail) == sha256.Size && string(got) == string(s.tail) {
		return got, nil
	}
	return nil, errors.New("its digest is not the one at its end")
}

// stream sends an act once and hands its answer on as it comes. The time it may take is the
// server's to bound.
func (c *caller) stream(ctx context.Context, one act) (io.ReadCloser, error) {
	req, err := c.request(ctx, one)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &unreachable{url: req.URL.Host, err: unwrapURL(err)}
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, api.MaxBody))
	if err == nil {
		_, err = c.read(one, resp, raw)
	}
	if err == nil {
		err = fail(exitUnavailable, "%s answered %s, which is no backup", req.URL.Host, resp.Status)
	}
	return nil, err
}
