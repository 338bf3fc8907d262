//go:build !linux

package program

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
