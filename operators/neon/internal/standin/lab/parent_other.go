//go:build !linux

package lab

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
