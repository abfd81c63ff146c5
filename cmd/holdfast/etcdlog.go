package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLogRoom is how many lines of etcd's log may wait to be written; what comes beyond is
// dropped and counted.
const etcdLogRoom = 256

// etcdLog is the zap core that etcd logs to. It never blocks: etcd holds locks and runs its
// consensus loop while it logs, and a log pipe that nobody reads must not stop the store
// (etcd #22214, #22326; FAULTS row 19). Lines from warn on go to slog through one goroutine.
//
// It also learns of the end: zap's own way out of Fatal is to end the process, which would
// leave no word about what to do. Here the goroutine that logged it is held for ever, or ended
// while etcd is still starting, and died tells.
type etcdLog struct {
	lines   chan etcdLine
	dropped atomic.Uint64
	running atomic.Bool // etcd has started: warnings count, and Fatal holds
	ending  atomic.Bool // it is being stopped: what it says of closed listeners is no news
	died    chan error  // one: etcd cannot go on
	done    chan struct{}
	stop    sync.Once
}

type etcdLine struct {
	level   slog.Level
	message string
	attrs   []slog.Attr
}

func newEtcdLog(to *slog.Logger) *etcdLog {
	l := &etcdLog{lines: make(chan etcdLine, etcdLogRoom), died: make(chan error, 1), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for line := range l.lines {
			to.LogAttrs(context.Background(), line.level, "etcd: "+line.message, line.attrs...)
		}
		if n := l.dropped.Load(); n > 0 {
			to.Warn("etcd: lines of its log were dropped", "lines", n)
		}
	}()
	return l
}

// logger is what etcd is given.
func (l *etcdLog) logger() *zap.Logger {
	return zap.New(&etcdCore{log: l}, zap.WithFatalHook(lastWord{l}), zap.WithPanicHook(lastWord{l}))
}

// close writes what is waiting. etcd must have stopped: it must not log any more.
func (l *etcdLog) close() {
	l.stop.Do(func() { close(l.lines) })
	<-l.done
}

// etcdCore is the part of etcdLog that zap sees, with the fields it was given so far.
type etcdCore struct {
	log    *etcdLog
	fields []zapcore.Field
}

// Enabled lets warnings through once etcd runs. While it starts it warns of things that are
// so on purpose (one port for two protocols, checkpoints, a new data directory).
func (c *etcdCore) Enabled(level zapcore.Level) bool {
	if c.log.ending.Load() {
		return level >= zapcore.DPanicLevel
	}
	return level >= zapcore.ErrorLevel || level == zapcore.WarnLevel && c.log.running.Load()
}

func (c *etcdCore) With(fields []zapcore.Field) zapcore.Core {
	return &etcdCore{log: c.log, fields: append(append([]zapcore.Field{}, c.fields...), fields...)}
}

// harmless is what etcd warns of in a database that it has only just made, and looks at again
// by itself.
const harmless = "Failed to detect schema version"

func (c *etcdCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) && entry.Message != harmless {
		return checked.AddCore(entry, c)
	}
	return checked
}

func (c *etcdCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	line := etcdLine{level: slog.LevelWarn, message: entry.Message, attrs: attrsOf(append(c.fields, fields...))}
	if entry.Level >= zapcore.ErrorLevel {
		line.level = slog.LevelError
	}
	select {
	case c.log.lines <- line:
	default:
		c.log.dropped.Add(1)
	}
	return nil
}

// Sync has nothing to do: whoever waits for the log waits in close.
func (c *etcdCore) Sync() error { return nil }

func attrsOf(fields []zapcore.Field) []slog.Attr {
	if len(fields) == 0 {
		return nil
	}
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	attrs := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		if value, ok := encoder.Fields[f.Key]; ok {
			attrs = append(attrs, slog.Any(f.Key, value))
			delete(encoder.Fields, f.Key)
		}
	}
	return attrs
}

// lastWord is what happens after a Fatal or Panic line of etcd.
type lastWord struct{ log *etcdLog }

func (e lastWord) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, f := range fields {
		if f.Key == "error" && f.Interface != nil {
			err = fmt.Errorf("%s: %v", entry.Message, f.Interface)
		}
	}
	select {
	case e.log.died <- err:
	default:
	}
	if !e.log.running.Load() {
		runtime.Goexit()
	}
	select {} // etcd takes for granted that nothing runs after this line
}
