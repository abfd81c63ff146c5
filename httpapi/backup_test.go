package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/reserve"
)

func TestBackup_IsTheStoreAsItComes(t *testing.T) {
	inBubble(t, func(r *rig) {
		g := r.get(r.token("root", "admin"), "/admin/v1/backup").want(http.StatusOK, nil)
		if string(g.body) != wholeStore || g.header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("got %q as %s, want the store as it is", g.body, g.header.Get("Content-Type"))
		}
		r.get(r.token("u_42", "holds:force limits:write"), "/admin/v1/backup").problem(api.Forbidden)
		there := func(c *auth.Claims) { c.Tenant = "acme" } // every tenant's state is in it
		r.get(r.token("root", "admin", there), "/admin/v1/backup").problem(api.Forbidden)
	})
}

func TestBackup_StoreAwayIsTold(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.get(r.token("root", "admin"), "/admin/v1/backup").problem(api.StoreUnavailable)
	}, func(c *Config) {
		c.Backup = func(context.Context) (io.ReadCloser, error) { return nil, reserve.ErrUnavailable }
	})
}

// A snapshot that breaks off must not look whole: the connection is cut.
func TestBackup_BrokenOffIsCut(t *testing.T) {
	inBubble(t, func(r *rig) {
		defer func() {
			if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("got %v, want the connection cut", err)
			}
		}()
		r.get(r.token("root", "admin"), "/admin/v1/backup")
		t.Error("a backup that broke off was answered")
	}, func(c *Config) {
		c.Backup = func(context.Context) (io.ReadCloser, error) {
			whole := iotest.OneByteReader(iotest.TimeoutReader(iotest.OneByteReader(&endless{})))
			return io.NopCloser(whole), nil
		}
	})
}

// endless gives bytes for ever; iotest.TimeoutReader breaks it off.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
