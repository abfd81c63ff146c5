package main

import "syscall"

// childAttributes let no server outlive us.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// asUser makes a child run as another user; ours must be root.
func asUser(a *syscall.SysProcAttr, uid, gid uint32) {
	a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
}
