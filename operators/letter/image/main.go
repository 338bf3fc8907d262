// Command image builds the container image of the Letter operator, without a container
// engine, and prints its size.
//
//	go run ./operators/letter/image [-dir bin]
//
// Run it in a checkout. ctr, docker and podman load the archive letter.tar that it
// writes.
package main

import "github.com/pintle-go/pintle/operators/internal/ship"

var images = []ship.Image{{
	Package: "github.com/pintle-go/pintle/operators/letter",
	Name:    "ghcr.io/pintle-go/letter:v0.1.0",
	Output:  "letter.tar",
}}

func main() { ship.Main(images...) }
