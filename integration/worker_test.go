package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/api"
)

// A worker is this test binary run again as another process: it holds a slot and extends it
// by HTTP until it is killed.

// workerEnv makes the test binary a worker; its value is the worker's orders as JSON.
const workerEnv = "HOLDFAST_TEST_WORKER"

// orders are what a worker is told.
type orders struct {
	URL, Token, Body string
	TTL              time.Duration
}

// report is one line of a worker. Sent and Answered are Unix nanoseconds of this machine's clock,
// around one call.
type report struct {
	ID             string
	Fence          int64
	Sending        bool // the call is about to be made
	Sent, Answered int64
	Fault          string
}

// work is the worker's life: reserve, then extend at a third of the TTL, for ever.
func work(raw string) int {
	var o orders
	say := json.NewEncoder(os.Stdout)
	if err := json.Unmarshal([]byte(raw), &o); err != nil {
		_ = say.Encode(report{Fault: err.Error()})
		return 1
	}
	path, body, want := "/v1/reservations", o.Body, http.StatusCreated
	for {
		_ = say.Encode(report{Sending: true})
		sent := time.Now()
		hold, err := o.call(path, body, want)
		r := report{ID: hold.ID, Fence: hold.Fence, Sent: sent.UnixNano(), Answered: time.Now().UnixNano()}
		if err != nil {
			r.Fault = err.Error()
		}
		if _ = say.Encode(r); err != nil {
			return 1
		}
		path, body, want = "/v1/reservations/"+hold.ID+"/extend", "", http.StatusOK
		<-time.After(o.TTL/3 - time.Since(sent))
	}
}

func (o orders) call(path, body string, want int) (hold api.Reservation, err error) {
	req, err := http.NewRequest(http.MethodPost, o.URL+path, strings.NewReader(body))
	if err != nil {
		return hold, err
	}
	req.Header.Set("Authorization", "Bearer "+o.Token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return hold, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != want {
		return hold, fmt.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
	}
	return hold, json.NewDecoder(resp.Body).Decode(&hold)
}

// worker is the other end: the process, and the lines it writes.
type worker struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startWorker(o orders) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerEnv+"="+string(raw))
	cmd.Stderr = os.Stderr
	dieWithParent(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &worker{cmd: cmd, lines: bufio.NewScanner(out)}, cmd.Start()
}

// next is the worker's next line; false when it has ended.
func (w *worker) next() (r report, ok bool) {
	for w.lines.Scan() {
		if json.Unmarshal(w.lines.Bytes(), &r) == nil {
			return r, true
		}
	}
	return r, false
}

// killAfter lets the worker have calls answered and kills it with -9. last is the last answer it
// got; clean is false when it died with a call under way, whose outcome nobody knows.
func (w *worker) killAfter(calls int) (last report, clean bool, err error) {
	defer func() { _ = w.cmd.Wait() }()
	clean = true
	take := func(r report) {
		if clean = !r.Sending; clean {
			last = r
		}
		if r.Fault != "" {
			err = fmt.Errorf("the worker: %s", r.Fault)
		}
	}
	for answered := 0; answered < calls && err == nil; {
		r, ok := w.next()
		if !ok {
			return last, false, fmt.Errorf("the worker ended by itself after %d answers", answered)
		}
		if take(r); clean {
			answered++
		}
	}
	if killed := w.cmd.Process.Kill(); killed != nil {
		return last, false, killed
	}
	for { // what it managed to say before it died counts
		r, ok := w.next()
		if !ok {
			return last, clean, err
		}
		take(r)
	}
}
