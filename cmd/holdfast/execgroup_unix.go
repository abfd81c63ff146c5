//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// childAttr gives the command a group of its own. Only the guard stops it when we are killed.
func childAttr(own bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: own} }

// ourselves is the file this program was started from.
func ourselves() (string, error) { return os.Executable() }

// members are the processes that can be told apart here: the leader of a group, which stands
// for whoever is left of it, or the command itself where the group is shared.
func (g *group) members() []int {
	switch {
	case g.pgid != 0:
		return []int{g.pgid}
	case g.child != 0:
		return []int{g.child}
	default:
		return nil
	}
}
