package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/api"
)

// examineAdmin asks the admin listener how the store is. Without an address of it, or the
// scope, there is nothing to say but that.
func (a *app) examineAdmin(ctx context.Context, call *caller) []finding {
	admin := finding{Name: "admin", OK: true}
	if call.target.adminURL == "" {
		admin.Note, admin.Detail = true, "not asked: its address is not known (--admin-server URL)"
		return []finding{admin}
	}
	admin.Detail = call.target.adminURL + " answers"
	var cluster api.ClusterAnswer
	_, err := call.do(ctx, act{method: http.MethodGet, path: "/admin/v1/cluster", admin: true, into: &cluster})
	problem, told := errors.AsType[*api.Problem](err)
	switch {
	case err == nil:
		return append([]finding{admin, examineSpace(cluster)}, examineMembers(cluster)...)
	case told && problem.Code == api.Forbidden:
		admin.Note, admin.Detail = true, "space and members are not this token's to see (scope admin)"
	case told:
		admin.Note, admin.Detail = true, "space and members are not known: "+problem.Detail
	default:
		admin.OK, admin.Detail, admin.exit = false, a.explain(err).what, exitUnavailable
		admin.next = hint{"is it the right one?", "--admin-server URL, HOLDFAST_ADMIN_URL, or the server's --admin-listen"}
	}
	return []finding{admin}
}

func examineSpace(c api.ClusterAnswer) finding {
	f := finding{Name: "space", OK: true, exit: exitFailed, next: hint{"look at", "the runbook, \"The store is full\""}}
	if c.QuotaBytes == 0 {
		f.Note, f.Detail = true, fmt.Sprintf("%d MiB in use of a quota that etcd does not tell", c.UsedBytes>>20)
	} else {
		percent := c.UsedBytes * 100 / c.QuotaBytes
		f.OK = percent < shortenPercent
		f.Detail = fmt.Sprintf("%d %% of %d MiB in use", percent, c.QuotaBytes>>20)
	}
	if len(c.Alarms) > 0 {
		f.OK, f.Detail = false, f.Detail+"; alarm "+strings.Join(c.Alarms, ", ")
	}
	return f
}

// examineMembers says nothing of a member that has no others.
func examineMembers(c api.ClusterAnswer) []finding {
	if len(c.Members) < 2 {
		return nil
	}
	f := finding{Name: "members", OK: true, exit: exitFailed, next: hint{"look at", "that member's log: one more that is away, and nothing is granted any more"}}
	var words []string
	led := false
	for _, m := range c.Members {
		word := m.Name
		if m.Leader {
			led, word = true, word+" (leader)"
		}
		if m.Answers != nil && !*m.Answers {
			f.OK, word = false, word+" does not answer"
		}
		words = append(words, word)
	}
	if f.Detail = strings.Join(words, ", "); !led {
		f.OK, f.Detail = false, f.Detail+"; none leads"
	}
	return []finding{f}
}

// examineFolder looks whether others on the machine can read what a server keeps: its key, and
// everybody's holds.
func examineFolder(path string) finding {
	f := finding{Name: "folder", OK: true, exit: exitFailed, Detail: path + " is its owner's alone", next: hint{"close it", "chmod -R go= " + path}}
	for _, name := range []string{"", etcdName, keyName} {
		info, err := os.Stat(filepath.Join(path, name))
		switch {
		case name != "" && errors.Is(err, fs.ErrNotExist):
		case err != nil:
			f.OK, f.Detail = false, fmt.Sprintf("it cannot be looked at: %v", err)
			f.next = hint{"name another", "--folder DIR"}
			return f
		case info.Mode().Perm()&0o077 != 0:
			f.OK, f.Detail = false, fmt.Sprintf("%s is open to others (%s)", filepath.Join(path, name), info.Mode().Perm())
			return f
		}
	}
	return f
}
