package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notified tells systemd, when that started us, that we serve, that we live, and that we stop.
// Elsewhere it does nothing. A socket that takes nothing is no reason to stop.
func (s *site) notified() (stopping func()) {
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	if within, err := daemon.SdWatchdogEnabled(false); err == nil && within > 0 {
		s.crew.run("watchdog", func(ctx context.Context) error { return keepAlive(ctx, within/2) })
	}
	return func() { _, _ = daemon.SdNotify(false, daemon.SdNotifyStopping) }
}

// keepAlive tells that the process runs. It asks nothing of the store: to be started again does
// not bring an etcd back that is away.
func keepAlive(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
