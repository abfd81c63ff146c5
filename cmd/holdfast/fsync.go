package main

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// fsyncMetric is how long etcd's log took to reach the disk, as etcd itself measures it.
const fsyncMetric = "etcd_disk_wal_fsync_duration_seconds"

// fsync is the upper bound of the 99th percentile since this process started, if etcd runs in it.
func (s *site) fsync() (p99 time.Duration, known bool) {
	if s.back.mode != "embedded" {
		return 0, false
	}
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return 0, false
	}
	for _, f := range families {
		if f.GetName() != fsyncMetric || len(f.GetMetric()) != 1 {
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		most := float64(h.GetSampleCount()) * 0.99
		for _, b := range h.GetBucket() {
			if up := b.GetUpperBound(); most > 0 && float64(b.GetCumulativeCount()) >= most && !math.IsInf(up, 1) {
				return time.Duration(up * float64(time.Second)), true
			}
		}
	}
	return 0, false
}
