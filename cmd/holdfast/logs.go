package main

import (
	"log/slog"
)

// logger is what a server tells of itself, on stderr.
func (a *app) logger(c *serverConfig) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	options := &slog.HandlerOptions{Level: levels[c.LogLevel]}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.stderr, options))
	}
	return slog.New(slog.NewTextHandler(a.stderr, options))
}
