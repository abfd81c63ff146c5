package etcdtest

import (
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logger returns etcd's logger: silent except for what ends the process, or all of it to t.Log.
//
// A fatal line goes to standard error in both cases, because zap exits right after it and what
// is in t.Log would be lost.
func logger(t testing.TB, toTest bool) *zap.Logger {
	enc := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	core := zapcore.NewCore(enc, zapcore.AddSync(os.Stderr), zapcore.PanicLevel)
	if toTest {
		w := &testWriter{t: t}
		t.Cleanup(w.close)
		core = zapcore.NewTee(core, zapcore.NewCore(enc, w, zapcore.InfoLevel))
	}
	return zap.New(core)
}

// testWriter passes lines to t.Log until the test is over; a later t.Log would panic.
type testWriter struct {
	mu   sync.Mutex
	t    testing.TB
	done bool
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.t.Log(strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}

// Sync has nothing to flush.
func (w *testWriter) Sync() error { return nil }

func (w *testWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
}
