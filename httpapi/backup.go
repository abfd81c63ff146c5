package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/auth"
)

// Bounds of a backup: of all of it, of the wait for one piece to be taken, and of a piece.
const (
	backupBudget = time.Hour // 8 GiB, the most a store may be, at 2.4 MB a second
	pieceBudget  = time.Minute
	pieceBytes   = 256 << 10
)

// operatorsTenant is the tenant of those who run the server.
const operatorsTenant = "default"

var backupType = []string{"application/octet-stream"}

// backup answers GET /admin/v1/backup with the whole store, every tenant's, as etcd writes a
// snapshot: its last 32 bytes are the SHA-256 of what comes before. An answer that breaks off
// is cut without its end, so that nobody takes it for whole.
//
// Access: admin of the tenant "default". Cost: reads everything; beside it the store goes on.
func (s *server) backup(_ context.Context, c *call) (int, any, error) {
	if c.who.Tenant != operatorsTenant { // it holds every tenant's state
		return 0, nil, fmt.Errorf("%w: a backup holds every tenant's state", auth.ErrForbidden)
	}
	ctx, cancel := context.WithTimeout(c.req.Context(), backupBudget)
	defer cancel()
	from, err := s.Backup(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = from.Close() }()
	piece := make([]byte, pieceBytes)
	n, err := io.ReadAtLeast(from, piece, 1) // a store that does not answer is told as a problem
	if err != nil {
		return 0, nil, fmt.Errorf("backup: %w", err)
	}
	c.out["Content-Type"] = backupType
	c.out["Content-Disposition"] = []string{`attachment; filename="holdfast.backup"`}
	x := c.params.Response().Writer
	control := http.NewResponseController(x)
	for {
		// The server's own write timeout is for one answer of the usual size. Where there is no
		// connection, as in tests, there is no deadline.
		_ = control.SetWriteDeadline(s.Now().Add(pieceBudget))
		if _, err := x.Write(piece[:n]); err != nil {
			panic(http.ErrAbortHandler)
		}
		if n, err = from.Read(piece); errors.Is(err, io.EOF) && n == 0 {
			return http.StatusOK, served{}, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			s.log.Error("a backup broke off", "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}
