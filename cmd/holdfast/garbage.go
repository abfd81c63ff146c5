package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of the garbage collector. Its cost goes with how often it runs: Go's default, as much
// garbage as there is live memory, made it a quarter of the work of a small server under load,
// while one with a million holds would keep gigabytes of garbage. So the garbage is bounded
// instead, in bytes, and the percentage follows from what lives. At rest, when nothing is asked
// for, the garbage is collected at once and its memory given back.
const (
	garbageBudget = 256 << 20 // bytes
	leastPercent  = 25
	mostPercent   = 800
	garbageEvery  = time.Second

	restBytes  = 2 << 20  // allocated in garbageEvery at most: nobody asks for anything
	worthBytes = 24 << 20 // allocated since the last time: less is not worth a collection
)

// keepGarbage keeps the garbage within its budget. GOGC and GOMEMLIMIT in the environment are
// the operator's word and switch it off.
func keepGarbage(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return nil
	}
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(garbageEvery)
	defer ticker.Stop()
	var rest rest
	for {
		metrics.Read(heap)
		debug.SetGCPercent(percentFor(heap[0].Value.Uint64()))
		if rest.worth(heap[1].Value.Uint64()) {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// rest knows when giving memory back is worth a collection.
type rest struct {
	last, given uint64 // bytes allocated since the process began: at the last look, when memory was given back
}

// worth says whether nothing has been asked for since the last look, and much before.
func (r *rest) worth(allocated uint64) bool {
	idle := allocated-r.last <= restBytes
	r.last = allocated
	if !idle || allocated-r.given < worthBytes {
		return false
	}
	r.given = allocated
	return true
}

// percentFor is the percentage at which garbageBudget is collected beside live bytes.
func percentFor(live uint64) int {
	return int(min(mostPercent, max(leastPercent, garbageBudget*100/max(live, 1))))
}
