// Command image builds the container image of the Neon operator, without a container engine,
// and prints its size.
//
//	go run ./operators/neon/image [-dir bin]
//
// Run it in a checkout. ctr, docker and podman load the archive neon.tar that it writes.
package main

import "github.com/pintle-go/pintle/operators/internal/ship"

// The clients of S3 and of PostgreSQL make it larger than the other operators' images.
var images = []ship.Image{{
	Package: "github.com/pintle-go/pintle/operators/neon",
	Name:    "ghcr.io/pintle-go/neon:v0.1.0",
	Output:  "neon.tar",
	Max:     10_000_000, MaxBinary: 30_000_000,
}}

func main() { ship.Main(images...) }
