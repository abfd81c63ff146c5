package main

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// childAttr lets the command die with us, whatever ends us, and gives it a group of its own.
// The thread that starts it must live as long as it does: its end would be taken for ours.
func childAttr(own bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: own, Pdeathsig: syscall.SIGKILL}
}

// ourselves is the file this program runs from, also when another has taken its place.
func ourselves() (string, error) { return "/proc/self/exe", nil }

// members are the processes of the command that run, by number.
func (g *group) members() []int {
	wanted := g.pgid
	if wanted == 0 {
		wanted = syscall.Getpgrp()
	}
	var found []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return g.known()
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if state, pgid := status(pid); !g.astray && pgid != wanted || state == 'Z' || state == 'X' {
			continue
		}
		if g.pgid != 0 || pid == g.child || marked(pid, g.mark) {
			found = append(found, pid)
		}
	}
	return found
}

// known is what can be told without /proc.
func (g *group) known() []int {
	return slices.DeleteFunc([]int{g.child}, func(pid int) bool { return pid == 0 })
}

// status is the state of a process and its group; 0 for one that is not there. The name in the
// line may hold anything, so it is read from its last bracket on.
func status(pid int) (state byte, pgid int) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0
	}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) < 3 {
		return 0, 0
	}
	pgid, _ = strconv.Atoi(string(fields[2]))
	return fields[0][0], pgid
}

// marked reports whether a process was started with the mark in its environment. One that is
// another user's cannot be asked, and could not be signalled either.
func marked(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(pair []byte) bool {
		return string(pair) == markName+"="+mark
	})
}
