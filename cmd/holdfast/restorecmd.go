package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/limits"
)

func (a *app) restoreCommand() *cobra.Command {
	r := restoring{name: etcdAlone}
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a data folder of a backup; the server must be stopped",
		Long: "Make the state in a data folder of a backup. The old server, and every replica on the old etcd, must be\n" +
			"stopped and stay so. Every fence granted afterwards is greater than every one before. A hold that is in\n" +
			"the backup goes on; a worker whose hold is not learns 404 and stops. Until the longest of those has\n" +
			"surely run out, 1 h from the first start, new holds are refused with 503 quarantine.\n\n" +
			"For a cluster run it for each member, with the same FILE and --quarantine, and start them together.",
		Example: "  holdfast restore monday.backup --data-dir /var/lib/holdfast\n" +
			"  holdfast restore monday.backup --etcd-dir /var/lib/etcd --etcd-name a \\\n" +
			"    --etcd-initial-cluster a=https://etcd-1:2380,b=https://etcd-2:2380,c=https://etcd-3:2380",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.file = args[0]
			return a.restore(cmd.Context(), r)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.dataDir, "data-dir", "./holdfast-data", "restore into the data folder `DIR` of holdfast serve or dev")
	flags.StringVar(&r.etcdDir, "etcd-dir", "", "restore into etcd's own folder `DIR` instead (the --data-dir of holdfast etcd)")
	flags.StringVar(&r.name, "etcd-name", etcdAlone, "for the member `NAME`")
	flags.StringSliceVar(&r.cluster, "etcd-initial-cluster", nil, "of the cluster `MEMBERS`, NAME=URL of each, separated by commas")
	flags.DurationVar(&r.quarantine, "quarantine", limits.MaxTTLBound, "refuse new holds for `TIME` from the first start; less than 1h only when no worker of the old server runs any more")
	return cmd
}

// restoring is what restore was told.
type restoring struct {
	file             string
	dataDir, etcdDir string
	name             string
	cluster          []string
	quarantine       time.Duration
}

// validate judges it, and gives the URL of the member itself.
func (r *restoring) validate() (peer string, err error) {
	if r.quarantine < 0 || r.quarantine > maxQuarantine || r.quarantine%time.Second != 0 {
		return "", usage("--quarantine must be whole seconds within 0s and %s", short(maxQuarantine))
	}
	if len(r.cluster) == 0 {
		r.cluster = []string{r.name + "=http://127.0.0.1:0"}
	}
	for _, member := range r.cluster {
		name, raw, _ := strings.Cut(member, "=")
		if u, err := url.Parse(raw); err != nil || u.Host == "" || name == "" {
			return "", usage("--etcd-initial-cluster: %q is no member such as a=https://a.example:2380", member)
		}
		if name == r.name {
			peer = raw
		}
	}
	if peer == "" {
		return "", usage("--etcd-name %q is none of --etcd-initial-cluster", r.name)
	}
	return peer, nil
}

// maxQuarantine bounds --quarantine; longer than the longest hold helps nobody.
const maxQuarantine = 24 * time.Hour

// restore makes the new state beside its place and moves it there when it is whole.
func (a *app) restore(ctx context.Context, r restoring) error {
	peer, err := r.validate()
	if err != nil {
		return err
	}
	if err := checkBackup(r.file); err != nil {
		return err
	}
	into := r.etcdDir
	if into == "" {
		dir, err := openDataDir(ctx, r.dataDir)
		if err != nil {
			return err
		}
		defer func() { _ = dir.close() }()
		into = dir.file(etcdName)
	}
	if entries, err := os.ReadDir(into); err == nil && len(entries) > 0 {
		return fail(exitFailed, "there is state in %s already, and it is not replaced", into).
			next("set it aside", "mv "+into+" "+into+".old").next("then", "once more")
	}
	made := strings.TrimSuffix(into, string(filepath.Separator)) + ".restoring"
	if err := os.RemoveAll(made); err != nil { // of a restore that was cut short
		return fail(exitFailed, "%s is in the way: %w", made, err)
	}
	rev, err := restoreEtcd(snapshotOf{file: r.file, into: made, name: r.name, peer: peer, cluster: strings.Join(r.cluster, ",")}, r.quarantine)
	if err == nil {
		err = errors.Join(removeEmpty(into), os.Rename(made, into))
	}
	if err != nil {
		_ = os.RemoveAll(made)
		return fail(exitFailed, "%s cannot be restored: %w", r.file, err).next("nothing was changed in", into)
	}
	if r.quarantine > 0 {
		a.say("start it: holds of the backup go on, new ones are refused for %s from the first start (503 quarantine)", short(r.quarantine))
	} else {
		a.say("start it: no quarantine, because you said that no worker of the old server runs any more")
	}
	answer := restored{Into: into, Revision: rev, QuarantineSeconds: int64(r.quarantine / time.Second)}
	return a.emit(answer, func() string { return into + "\n" }, func() []string { return []string{into} })
}

// restored is what restore tells a program.
type restored struct {
	Into              string `json:"into"`
	Revision          int64  `json:"revision"` // every fence from now on is greater
	QuarantineSeconds int64  `json:"quarantineSeconds"`
}

// removeEmpty takes an empty folder away, so that another can take its name.
func removeEmpty(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// checkBackup reads a backup to its end: a file that is not whole is told before anything is made.
func checkBackup(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return usage("the backup cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum := newSumCheck()
	if _, err := io.Copy(sum, file); err != nil {
		return fail(exitFailed, "the backup cannot be read: %w", err)
	}
	if _, err := sum.check(); err != nil {
		return fail(exitFailed, "%s is no whole backup: %w", path, err).next("make one", "holdfast backup FILE, from a running server")
	}
	return nil
}
