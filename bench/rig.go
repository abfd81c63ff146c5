package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/holdfast-dev/holdfast/api"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/load"
)

// rig is what every part of a comparison uses.
type rig struct {
	options
	dir     string
	holdish string // the Holdfast binary
	jwks    string // file of the key set that every server trusts
	limits  string // file of limits
	token   string
	figures figures
	found   map[string]ratio // of rows that are not a ratio of two arms
	notes   []string
	tables  []table
}

const (
	issuer, audience = "bench", "holdfast"
	kind             = "user"
	ttl              = 5 * time.Minute
	spreadSubjects   = 100_000
	plenty           = 1_000_000_000
	semaphore        = 64 // slots a key in all semaphores
)

// newRig makes folder, token, limits and binary.
func newRig(ctx context.Context, o options) (r *rig, err error) {
	r = &rig{options: o, figures: figures{}, found: map[string]ratio{}}
	if r.dir, err = os.MkdirTemp("", "holdfast-compare-"); err != nil {
		return nil, err
	}
	// PostgreSQL does not run as root, and must reach its folder.
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return nil, err
	}
	signer, err := auth.GenerateKey()
	if err != nil {
		return nil, err
	}
	claims := auth.Claims{Issuer: issuer, Audience: audience, Subject: "bench", Scope: "admin", TTL: 24 * time.Hour}
	if r.token, err = signer.Mint(claims, time.Now()); err != nil {
		return nil, err
	}
	r.jwks, r.limits = filepath.Join(r.dir, "jwks.json"), filepath.Join(r.dir, "limits.json")
	file, err := json.Marshal(map[string]any{"limits": limitsOfRig()})
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.WriteFile(r.jwks, signer.JWKS(), 0o644), os.WriteFile(r.limits, file, 0o644))
	if err != nil {
		return nil, err
	}
	return r, r.build(ctx)
}

func (r *rig) close() {
	if r.keep {
		r.say("folders are kept in %s", r.dir)
		return
	}
	_ = os.RemoveAll(r.dir)
}

// build makes the Holdfast binary out of the module that this one replaces.
func (r *rig) build(ctx context.Context) error {
	if r.binary != "" {
		r.holdish = r.binary
		return nil
	}
	r.say("building holdfast")
	r.holdish = filepath.Join(r.dir, "holdfast")
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", r.holdish, "./cmd/holdfast")
	cmd.Dir = ".." // in its own module, whose sums this one does not repeat
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("holdfast cannot be built (run it by `go -C bench run .`): %w\n%s", err, out)
	}
	return nil
}

// folder makes a folder of the rig.
func (r *rig) folder(name string) (string, error) {
	return os.MkdirTemp(r.dir, name+"-")
}

// limitTable are the numbers of limits whose price a table shows.
var limitTable = []int{1, 2, 3, 5, 10}

// limitsOfRig are the limits of every Holdfast server here, each action with its own:
//
//	both    concurrent and one window, as most checks are
//	sem     concurrent, as many slots as the other semaphores have
//	crowd   concurrent, more slots than anybody takes
//	single  concurrent, one slot
//	w<n>    n windows
func limitsOfRig() (all []api.LimitInput) {
	add := func(action string, in api.LimitInput, amount int64) {
		in.ID = fmt.Sprintf("%s-%d", action, len(all))
		in.Name, in.SubjectKind, in.Action, in.Amount = in.ID, kind, action, amount
		all = append(all, in)
	}
	concurrent := api.LimitInput{Window: "concurrent"}
	add("both", concurrent, plenty)
	add("both", load.Windows()[0], plenty)
	add("sem", concurrent, semaphore)
	add("crowd", concurrent, plenty)
	add("single", concurrent, 1)
	for _, n := range limitTable {
		for _, w := range load.Windows()[:n] {
			add(fmt.Sprintf("w%d", n), w, plenty)
		}
	}
	return all
}

// asked is a load of HTTP: an action on subjects of a name of their own.
func asked(verb load.Verb, action, name string, keys load.Keys) load.Work {
	return load.Work{Verb: verb, Act: action, Kind: kind, Name: name, Keys: keys, TTL: ttl, Batch: 100}
}

// posts is an arm of HTTP at a server. What it reserves and keeps is given back, untimed.
func posts(name string, workers int, end func() *load.Endpoint, w load.Work) arm {
	seed := uint64(0)
	return arm{name: name, workers: workers, begin: func(ctx context.Context) (func(int) (load.Step, error), func(context.Context) error, error) {
		seed += 1_000_000
		w := w
		w.Seed, w.Kept = seed, &load.Kept{}
		prepare, hangUp, err := w.Prepare(ctx, end())
		if err != nil {
			return nil, nil, err
		}
		return prepare, func(ctx context.Context) error {
			hangUp()
			if left := load.Release(ctx, end(), w.Kept.Take(), workers); left > 0 {
				return fmt.Errorf("%d holds could not be given back", left)
			}
			return nil
		}, nil
	}}
}
