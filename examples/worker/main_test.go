package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/client/holdfasttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T) (s *holdfasttest.Server, c *client.Client, in, out string) {
	t.Helper()
	s = holdfasttest.New(t, holdfasttest.Concurrent("exports", "export", 1))
	t.Setenv("HOLDFAST_URL", s.URL())
	t.Setenv("HOLDFAST_TOKEN", s.Token("u_42"))
	c, err := client.New(client.FromEnv())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	in, out = t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte("one\ntwo\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s, c, in, out
}

// The example does what its text says.
func TestRun(t *testing.T) {
	s, c, in, out := setup(t)
	var said, trouble bytes.Buffer
	files := []string{filepath.Join(in, "a"), filepath.Join(in, "gone"), filepath.Join(in, "b")}
	if left := run(t.Context(), c, "user:u_42", out, files, &said, &trouble); left != 1 {
		t.Errorf("%d files were left, want the one that is not there; it said %s", left, &trouble)
	}
	if want := regexp.MustCompile(`^a: 2 parts, slot 0, fence \d+\nb: 2 parts, slot 0, fence \d+\n$`); !want.Match(said.Bytes()) {
		t.Errorf("it said\n%swant %s", &said, want)
	}
	made, err := os.ReadDir(out)
	if err != nil || len(made) != 2 {
		t.Fatalf("the folder has %v, %v, want a and b", made, err)
	}
	for _, file := range made {
		if text, err := os.ReadFile(filepath.Join(out, file.Name())); err != nil || string(text) != "ONE\nTWO\n" {
			t.Errorf("%s holds %q, %v", file.Name(), text, err)
		}
	}
	if held := s.Holds(); len(held) != 0 {
		t.Errorf("it holds %+v after its end", held)
	}
}

// A hold that is lost leaves nothing half done behind.
func TestExport_LostHold(t *testing.T) {
	s, c, in, out := setup(t)
	h, err := c.Reserve(t.Context(), client.Request{Action: "export"})
	if err != nil {
		t.Fatal(err)
	}
	s.ForceRelease(h.ID(), "for a test")
	_ = h.Verify(t.Context()) // it learns of it
	if _, err := export(h.Context(), h, filepath.Join(in, "a"), out); err == nil {
		t.Error("it was exported under a hold that is lost")
	}
	if made, err := os.ReadDir(out); err != nil || len(made) != 0 {
		t.Errorf("the folder has %v, %v, want nothing", made, err)
	}
}
