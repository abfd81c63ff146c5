package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

const usage = "usage: go -C bench run . compare [-rounds N] [-seconds S] [-only PARTS] [-smoke] [-out FILE]"

// run is compare, or one of the servers that compare starts of this very binary.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "compare":
		o, err := parse(args[1:])
		if err != nil {
			return err
		}
		return compare(ctx, o)
	case "front":
		return front(ctx, args[1:])
	case "etcd":
		return plainEtcd(ctx, args[1:])
	default:
		return fmt.Errorf("%q is no command; %s", args[0], usage)
	}
}

// options are the flags of compare.
type options struct {
	rounds int
	length time.Duration // of one measurement
	warm   time.Duration // before it
	only   []string      // parts; empty: all
	smoke  bool
	out    string
	binary string // of Holdfast; "": build it
	keep   bool
	many   int // holds of the growth part
	most   int // subjects of the growth part
}

func parse(args []string) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	seconds := flags.Float64("seconds", 2, "length of one measurement")
	flags.IntVar(&o.rounds, "rounds", 5, "how often all are measured, one after the other")
	flags.BoolVar(&o.smoke, "smoke", false, "under a minute, Holdfast and etcd alone, nothing is judged")
	flags.StringVar(&o.out, "out", "", "write the tables to this file too")
	flags.StringVar(&only, "only", "", "parts, separated by commas: "+strings.Join(partNames(), ", "))
	flags.StringVar(&o.binary, "holdfast", "", "use this binary instead of building one")
	flags.BoolVar(&o.keep, "keep", false, "leave the servers' folders behind")
	flags.IntVar(&o.many, "holds", 100_000, "live holds of the growth part")
	flags.IntVar(&o.most, "subjects", 1_000_000, "subjects of the growth part")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || *seconds <= 0 || o.many < 1000 || o.most < 1000 {
		return o, errors.New(usage)
	}
	o.length, o.warm = time.Duration(*seconds*float64(time.Second)), 300*time.Millisecond
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	if o.smoke {
		o.rounds, o.length, o.warm, o.many, o.most = 2, 500*time.Millisecond, 200*time.Millisecond, 2000, 10_000
	}
	return o, nil
}
