package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// limitsEvery is how often a server looks whether its limits file has changed.
const limitsEvery = 2 * time.Second

// followLimits imports the limits file again when it changes, and whenever HUP comes. A file
// that is wrong changes nothing: the log says what is wrong with it, and the limits stay. It
// returns when ctx ends.
func (s *site) followLimits(ctx context.Context, known *limitsFile) error {
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	tick := time.NewTicker(limitsEvery)
	defer tick.Stop()
	seen := stampOf(known.path)
	digest := known.file.Digest
	for {
		asked := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hups:
			asked = true
		case <-tick.C:
		}
		now := stampOf(known.path)
		if now == seen && !asked {
			continue
		}
		seen = now
		file, err := s.app.readLimitsFile(known.path)
		if err != nil {
			s.log.Error("the limits file was not read; the limits stay as they are", "file", known.path, "tenant", known.tenant, "error", err)
			continue
		}
		file.tenant = known.tenant
		if file.file.Digest == digest && !asked {
			continue // touched, not changed
		}
		if _, err := s.importLimits(ctx, file); err != nil {
			s.log.Error("the limits file was not imported; the limits stay as they are", "file", known.path, "tenant", known.tenant, "error", err)
			seen = stamp{} // looked at again: it may have been the store
			continue
		}
		digest = file.file.Digest
	}
}

// stamp tells one state of a file from another without reading it. The zero stamp is of none.
type stamp struct {
	changed time.Time
	size    int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}
