// Package janitor runs named sweeps on a schedule. It knows cron, and how to keep a sweep
// short, single and alive; it does not know what a sweep sweeps.
//
// A sweep is bookkeeping: slots free themselves without it (DESIGN.md section 8), every write
// it makes is guarded, and running it on every replica at once is harmless. So the janitor
// elects nobody, and a run that is missed is caught up by the next one.
//
// Three things can silence a cron job for ever, and each has its answer here:
//
//   - cron v3.0.1 hands the token of SkipIfStillRunning back without defer, so a panic that
//     passes through it keeps the token. Skip is the outer wrapper, recover the inner one.
//   - cron runs on the wall clock and fires nothing until a clock that was set back has caught
//     up (robfig/cron #480). A watchdog on the monotonic clock starts a job that has not been
//     started for two of its intervals.
//   - a sweep that always times out makes no progress. After a time-out the batch is halved.
package janitor
