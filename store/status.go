package store

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// Status is how the members of etcd that were asked stand; of each figure the greatest.
type Status struct {
	Revision int64 // of the store
	Size     int64 // of the database file, bytes
	InUse    int64 // of the file, bytes; thresholds judge by this
	Quota    int64 // bytes; 0 when the server does not tell
	NoSpace  bool  // the alarm is raised: puts fail, deletes do not
}

// errNoMaintenance is a fault of the program.
var errNoMaintenance = errors.New("store: Config.Maintenance is missing")

// Status asks each of Config.Endpoints, or the one there is of an in-process client.
// One that is away is left out. Errors: reserve.ErrUnavailable when none answers. Cost: one call
// to each, one after the other.
func (s *Store) Status(ctx context.Context) (st Status, err error) {
	if s.cfg.Maintenance == nil {
		return st, errNoMaintenance
	}
	endpoints := s.cfg.Endpoints
	if len(endpoints) == 0 {
		endpoints = []string{""}
	}
	answered := false
	for _, endpoint := range endpoints {
		if failed := s.askStatus(ctx, endpoint, &st); failed != nil {
			err = failed
			continue
		}
		answered = true
	}
	if !answered {
		return st, readError("status", err)
	}
	return st, nil
}

func (s *Store) askStatus(ctx context.Context, endpoint string, st *Status) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.cfg.Maintenance.Status(ctx, endpoint)
	s.metrics.count("status", err)
	if err != nil {
		return err
	}
	st.Revision = max(st.Revision, resp.Header.GetRevision())
	st.Size = max(st.Size, resp.DbSize)
	st.InUse = max(st.InUse, resp.DbSizeInUse)
	st.Quota = max(st.Quota, resp.DbSizeQuota)
	st.NoSpace = st.NoSpace || slices.ContainsFunc(resp.Errors, func(e string) bool { return strings.Contains(e, "NOSPACE") })
	return nil
}
