package judge_test

import "flag"

// go test ./integration/... -faults=… gives the flag to every package: here it changes nothing.
var _ = flag.String("faults", "short", "read by the package integration")
