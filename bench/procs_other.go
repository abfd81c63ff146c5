//go:build !linux

package main

import "syscall"

func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func asUser(a *syscall.SysProcAttr, uid, gid uint32) {
	a.Credential = &syscall.Credential{Uid: uid, Gid: gid}
}
