package integration

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-dev/holdfast/integration/judge"
)

// ourKeys is where the keys of the tenant "default" are.
const ourKeys = "/holdfast/v1/t/default/"

// replayStore reads the history of a store that nobody compacts, and fails the test on what the
// replay objects to.
func replayStore(t *testing.T, client *clientv3.Client) judge.Seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), generous)
	defer cancel()
	seen, err := judge.Follow(client, ourKeys, time.Now()).Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range seen.Faults {
		t.Error(f)
	}
	return seen
}
