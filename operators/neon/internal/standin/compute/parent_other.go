//go:build !linux

package compute

import "syscall"

func dieWithParent(*syscall.SysProcAttr) {}
