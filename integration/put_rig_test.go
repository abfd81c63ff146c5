package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// What a Put to etcd takes is measured from a process of its own, as a replica is one: within the
// process that runs etcd it would be cheaper than for whoever it is compared with.

// putEnv has this test binary put, to the endpoints it names.
const putEnv = "HOLDFAST_TEST_PUT_TO"

// putter is that process.
type putter struct {
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
}

func newPutter(t testing.TB, endpoints []string) *putter {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), putEnv+"="+strings.Join(endpoints, ","))
	dieWithParent(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return &putter{t, in, bufio.NewReader(out)}
}

// put is how long one took.
func (p *putter) put() time.Duration {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		p.t.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	took, err := time.ParseDuration(strings.TrimSpace(line))
	if err != nil {
		p.t.Fatalf("a Put: %s", line)
	}
	return took
}

// putAll puts 100 bytes for each line it reads, and says how long that took.
func putAll(endpoints string) int {
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(endpoints, ","), DialTimeout: 2 * time.Second})
	if err != nil {
		_, _ = fmt.Fprintln(os.Stdout, err)
		return 1
	}
	defer func() { _ = client.Close() }()
	lines := bufio.NewScanner(os.Stdin)
	for n := 0; lines.Scan(); n++ {
		ctx, cancel := context.WithTimeout(context.Background(), generous)
		began := time.Now()
		_, err := client.Put(ctx, fmt.Sprint("/beside/", n%1000), string(make([]byte, 100)))
		cancel()
		if err != nil {
			_, _ = fmt.Fprintln(os.Stdout, err)
			return 1
		}
		_, _ = fmt.Fprintln(os.Stdout, time.Since(began))
	}
	return 0
}
