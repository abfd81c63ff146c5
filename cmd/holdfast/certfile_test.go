package main

import (
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A certificate that was renewed is shown without a restart; one that cannot be read is not.
func TestCertFile_IsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(host string, stamp time.Time) {
		t.Helper()
		files, err := certificates([]string{host}, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{certName, certKeyName} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, files[name], 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := &certFile{cert: filepath.Join(dir, certName), key: filepath.Join(dir, certKeyName), log: slog.New(slog.DiscardHandler)}
	shown := func() string {
		t.Helper()
		f.look = time.Time{}
		pair, err := f.current(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.DNSNames[0]
	}
	stamp := time.Now().Add(-time.Hour)
	write("old.example", stamp)
	if err := f.load(); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "old.example" {
		t.Errorf("at first: %s", got)
	}
	write("new.example", stamp.Add(time.Minute))
	if got := shown(); got != "new.example" {
		t.Errorf("after it was renewed: %s, want new.example", got)
	}
	if err := os.WriteFile(f.cert, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := shown(); got != "new.example" {
		t.Errorf("after it was spoilt: %s, want the last good one", got)
	}
}
