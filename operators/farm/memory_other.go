//go:build !linux

package main

func unmap() {}
