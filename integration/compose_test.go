package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// FAULTS rows 9, 12 and 13 with containers, issue 7: docker-compose.yml as a newcomer starts it.
// The etcd leader's container is stopped, and a replica's is cut from its network and healed.

// containersEnv lets the tests with containers run: they build an image, which takes a minute or
// more of every core.
const containersEnv = "HOLDFAST_TEST_CONTAINERS"

// composeWithin bounds one command of the engine.
const composeWithin = 5 * time.Minute

// cell is a running docker-compose.yml under a name of its own.
type cell struct {
	t       *testing.T
	name    string
	compose []string // the command
	env     []string
	ports   [4]string // of replica 1 and 2: API and admin
}

// composed builds the image and starts everything, or skips the test where that cannot be.
func composed(t *testing.T) *cell {
	t.Helper()
	if os.Getenv(containersEnv) == "" {
		t.Skip("tests with containers run when " + containersEnv + " is set (make containers)")
	}
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("there is no container engine: %v %s", err, out)
	}
	c := &cell{t: t, name: fmt.Sprintf("holdfast-test-%d", os.Getpid()), compose: []string{"docker", "compose"}}
	if exec.Command("docker", "compose", "version").Run() != nil {
		if c.compose = []string{"docker-compose"}; exec.Command("docker-compose", "version").Run() != nil {
			t.Skip("the engine has no compose")
		}
	}
	image := "holdfast:" + c.name
	c.env = append(os.Environ(), "HOLDFAST_IMAGE="+image)
	for i, name := range []string{"HOLDFAST_PORT_1", "HOLDFAST_ADMIN_PORT_1", "HOLDFAST_PORT_2", "HOLDFAST_ADMIN_PORT_2"} {
		c.ports[i] = freePort(t)
		c.env = append(c.env, name+"="+c.ports[i])
	}
	c.must("make", "-C", "..", "image", "IMAGE="+image)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := c.run(append(c.compose, "-p", c.name, "-f", "../docker-compose.yml", "logs", "--no-color", "--tail", "40")...)
			t.Logf("the containers said:\n%s", out)
		}
		_, _ = c.run(append(c.compose, "-p", c.name, "-f", "../docker-compose.yml", "down", "--volumes", "--timeout", "5")...)
		_, _ = c.run("docker", "image", "rm", "--force", image)
	})
	c.do("up", "--detach")
	return c
}

// freePort is a port that was free a moment ago; the engine needs to know it beforehand.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (c *cell) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), composeWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cell) must(args ...string) string {
	c.t.Helper()
	out, err := c.run(args...)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// do is a verb of compose.
func (c *cell) do(args ...string) string {
	c.t.Helper()
	return c.must(append(append(append([]string{}, c.compose...), "-p", c.name, "-f", "../docker-compose.yml"), args...)...)
}

// container is the id of a service's container.
func (c *cell) container(service string) string {
	c.t.Helper()
	return strings.TrimSpace(c.do("ps", "-q", service))
}

// replica speaks to replica 1 or 2 as an administrator.
func (c *cell) replica(n int) *caller {
	c.t.Helper()
	token := strings.TrimSpace(c.must("docker", "exec", c.container(fmt.Sprint("replica-", n)), "/holdfast", "token", "mint",
		"--key", "/keys/signing.pem", "--issuer", "compose", "--audience", "holdfast", "--sub", "root", "--scope", "admin"))
	s := &server{process: &process{}}
	s.run.URL, s.run.AdminURL = "http://127.0.0.1:"+c.ports[2*n-2], "http://127.0.0.1:"+c.ports[2*n-1]
	return callerOf(c.t, s, token)
}

// eventually repeats a request until its answer has one of the statuses.
func eventually(t *testing.T, c *caller, method, path, body string, statuses ...int) reply {
	t.Helper()
	var last reply
	var err error
	for began := time.Now(); time.Since(began) < generous; until(t, time.Now().Add(100*time.Millisecond)) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		last, err = c.try(ctx, method, path, body)
		cancel()
		for _, want := range statuses {
			if err == nil && last.status == want {
				return last
			}
		}
	}
	t.Fatalf("%s %s: %s, %v, want %v within %s", method, path, last, err, statuses, generous)
	return last
}

func TestCompose_GoesOnWithoutTheLeaderAndHealsAfterACut(t *testing.T) {
	c := composed(t)
	for n := 1; n <= 2; n++ {
		one := callerOf(t, &server{process: &process{}}, "")
		one.s.run.URL = "http://127.0.0.1:" + c.ports[2*n-2]
		eventually(t, one, http.MethodGet, "/readyz", "", http.StatusOK)
	}
	one, two := c.replica(1), c.replica(2)
	one.limit(`{"name":"exports","subjectKind":"user","action":"export","amount":2,"window":"concurrent"}`)
	const body = `{"subject":{"kind":"user","id":"u"},"action":"export","ttlSeconds":3600}`
	first := read[api.Reservation](t, one.post("/v1/reservations", body), http.StatusCreated)

	leader := leads(one)
	c.must("docker", "kill", c.container(leader))
	second := read[api.Reservation](t, eventually(t, two, http.MethodPost, "/v1/reservations", body, http.StatusCreated), http.StatusCreated)
	if second.Slots[0] == first.Slots[0] {
		t.Errorf("without the leader %s slot %v was given twice", leader, second.Slots)
	}
	refusal(t, eventually(t, one, http.MethodPost, "/v1/reservations", body, http.StatusTooManyRequests), api.NoFreeSlot)
	c.must("docker", "start", c.container(leader))

	// A leader that is cut off, with all its streams open, must not go on leading.
	network := c.name + "_cell"
	leader = leads(two)
	c.must("docker", "network", "disconnect", "--force", network, c.container(leader))
	read[api.Reservation](t, eventually(t, two, http.MethodPost, "/v1/reservations/"+second.ID+"/extend", "", http.StatusOK), http.StatusOK)
	c.must("docker", "network", "connect", "--alias", leader, network, c.container(leader))

	// Cut from its network a replica grants nothing and ends nothing. Its published port is on
	// that network too, so it is asked from inside.
	id := c.container("replica-1")
	c.must("docker", "network", "disconnect", "--force", network, id)
	if out, err := c.run("docker", "exec", id, "/holdfast", "healthcheck", "--server", "http://127.0.0.1:7420", "--timeout", "5s"); exitStatus(err) != 69 {
		t.Errorf("a replica without its network: %v %s, want exit 69", err, out)
	}
	read[api.Reservation](t, eventually(t, two, http.MethodPost, "/v1/reservations/"+second.ID+"/release", "", http.StatusOK), http.StatusOK)
	third := read[api.Reservation](t, eventually(t, two, http.MethodPost, "/v1/reservations", body, http.StatusCreated), http.StatusCreated)
	if third.Fence <= second.Fence {
		t.Errorf("fence %d after %d", third.Fence, second.Fence)
	}
	c.must("docker", "network", "connect", "--alias", "replica-1", network, id)
	one = c.replica(1)
	r := eventually(t, one, http.MethodPost, "/v1/reservations/"+first.ID+"/extend", "", http.StatusOK)
	if again := read[api.Reservation](t, r, http.StatusOK); again.Fence != first.Fence {
		t.Errorf("after the cut fence %d, want %d as before", again.Fence, first.Fence)
	}
	one.noDrift()
}

// exitStatus is what a command ended with; 0 when it did not fail.
func exitStatus(err error) int {
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.ExitCode()
	}
	return 0
}

// leads is the name of the etcd member that leads.
func leads(c *caller) string {
	c.t.Helper()
	members := get[api.ClusterAnswer](c, "/admin/v1/cluster").Members
	for _, m := range members {
		if m.Leader {
			return m.Name
		}
	}
	c.t.Fatalf("no member leads: %+v", members)
	return ""
}
