package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/integration/etcdtest"
)

// Issue 8, shown by 1, by the program on an etcd that takes 128 operations in a transaction: a
// file of 500 limits is applied as one, its export changes nothing, a wrong line 317 is named
// and changes nothing either.
func TestLimitsCode_FiveHundredLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	signer, err := auth.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Mint(auth.Claims{Issuer: "me", Audience: "holdfast", Subject: "root", Scope: "admin", TTL: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keys, file, wrong, export := filepath.Join(dir, "jwks.json"), filepath.Join(dir, "500.yaml"), filepath.Join(dir, "wrong.yaml"), filepath.Join(dir, "export.yaml")
	text := "limits:\n"
	for i := range 500 {
		text += fmt.Sprintf("  - {id: l%03d, name: Limit %d, subjectKind: user, action: act%d, amount: %d, window: day}\n", i, i, i, i)
	}
	lines := strings.Split(text, "\n")
	lines[1], lines[316] = strings.Replace(lines[1], "amount: 0", "amount: 7", 1), strings.Replace(lines[316], "amount: 315", "amount: -1", 1)
	err = errors.Join(os.WriteFile(keys, signer.JWKS(), 0o600), os.WriteFile(file, []byte(text), 0o600), os.WriteFile(wrong, []byte(strings.Join(lines, "\n")), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	etcd := etcdtest.Start(t, etcdtest.Listen(), etcdtest.NoFsync(), etcdtest.MaxTxnOps(128))
	s, err := startServe([]string{"HOME=" + dir}, filepath.Join(dir, "state"), "--jwks-file", keys, "--jwt-issuer", "me", "--jwt-audience", "holdfast", "--etcd-endpoints", etcd.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	limits := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		var out, talk bytes.Buffer
		env := []string{"HOME=" + dir, "HOLDFAST_URL=" + s.run.URL, "HOLDFAST_TOKEN=" + token}
		if code := run(t.Context(), append([]string{"limits"}, args...), env, strings.NewReader(""), &out, &talk); code != want {
			t.Fatalf("limits %v: got exit %d, want %d; %s", args, code, want, talk.String())
		}
		return out.String(), talk.String()
	}
	const still = "0 created, 0 changed, 0 deleted, 500 as they are\n"

	planned, _ := limits(exitUsage, "plan", file)
	if applied, _ := limits(exitDone, "apply", file); applied != planned || !strings.Contains(applied, "500 created, 0 changed, 0 deleted, 0 as they are") {
		t.Errorf("apply did\n%s\nplan said\n%s", applied, planned)
	}
	if got, _ := limits(exitDone, "plan", file, "--prune"); got != still {
		t.Errorf("plan after apply: %s", got)
	}
	exported, _ := limits(exitDone, "export")
	if err := os.WriteFile(export, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := limits(exitDone, "apply", export, "--prune"); got != still {
		t.Errorf("apply of the export: %s", got)
	}
	if again, _ := limits(exitDone, "export"); again != exported {
		t.Error("the export of an applied export is another")
	}
	if _, said := limits(exitUsage, "apply", wrong); !strings.Contains(said, "wrong.yaml: line 317: /limits/315/amount must be") {
		t.Errorf("a wrong line 317: %s", said)
	}
	if after, _ := limits(exitDone, "export"); after != exported {
		t.Error("a wrong file has changed something")
	}
}
